// What the invocations of a workgroup have found in their segments, combined; appended to reduction.wgsl on GPUs

var<workgroup> found: array<$T, ${workgroup}>;

// The result is that of the whole workgroup in the first invocation only.
fn joined(own: $T, place: u32) -> $T {
  found[place] = own;
  for (var half = ${workgroup}u / 2u; half > 0u; half /= 2u) {
    workgroupBarrier();
    if (place < half) { found[place] = combine(found[place], found[place + half]); }
  }
  return found[place];
}
