// Sums of floats at places that are data, which do not depend on the order of the additions
//
// A sum is an integer of 64 bits, in units of 2^-35 of the power of two below the largest term. So all invocations
// first `measure` their terms, then `add` them. Each place has three words: the largest magnitude, and the integer;
// where a term is infinite or NaN, the integer tells which of these there are.

// The largest magnitude among the terms
fn measure(place: u32, term: f32) {
  atomicMax(&sums[3u * place], bitcast<u32>(term) & 0x7fffffffu);
}

fn add(place: u32, term: f32) {
  let largest = atomicLoad(&sums[3u * place]);
  let magnitude = bitcast<u32>(term) & 0x7fffffffu;
  if (largest >= 0x7f800000u) {
    if (magnitude < 0x7f800000u) { return; }
    let kind = select(select(1u, 2u, is_negative(term)), 4u, is_nan(term));
    atomicOr(&sums[3u * place + 1u], kind);
    return;
  }
  let significand = (magnitude & 0x7fffffu) | select(0u, 0x800000u, magnitude >= 0x800000u);
  // The significand of the largest term is shifted to the left by 12 bits, and that of any other term by fewer.
  let behind = max(largest >> 23u, 1u) - max(magnitude >> 23u, 1u);
  var low = significand << (12u - min(behind, 12u));
  var high = select(0u, significand >> (20u + behind), behind < 12u);
  if (behind > 12u) {
    let lost = min(behind - 12u, 25u);
    low = (significand + (1u << (lost - 1u))) >> lost;
  }
  if (is_negative(term)) {
    low = ~low + 1u;
    high = ~high + u32(low == 0u);
  }
  let before = atomicAdd(&sums[3u * place + 1u], low);
  atomicAdd(&sums[3u * place + 2u], high + u32(before + low < before));
}
