// What the invocations of a workgroup have found, combined: all of them get the result, and all of them must ask
//
// Where the device has subgroups, the invocations of each one exchange values first, in which nobody waits. The parts
// of the subgroups, or of the single invocations, then go through the memory of the workgroup.

var<workgroup> parts_of_$name: array<$T, $workgroup>;

fn $name(own: $T, place: u32, lanes: u32) -> $T {
  var value = own;
  $exchange
  if (place % lanes == 0u) { parts_of_$name[place / lanes] = value; }
  for (var half = ${workgroup}u / lanes / 2u; half > 0u; half /= 2u) {
    workgroupBarrier();
    if (place < half) {
      let a = parts_of_$name[place];
      let b = parts_of_$name[place + half];
      parts_of_$name[place] = $combine;
    }
  }
  workgroupBarrier();
  let all = parts_of_$name[0];
  workgroupBarrier();  // the memory may be used again
  return all;
}
