// output[i] = the number of invocations in the subgroup of invocation i, or 0 if they are not neighbours in order

@group(0) @binding(0) var<storage, read_write> output: array<u32>;

@compute @workgroup_size(64)
fn main(
  @builtin(local_invocation_index) local: u32,
  @builtin(subgroup_size) size: u32,
  @builtin(subgroup_invocation_id) lane: u32,
) {
  output[local] = select(0u, size, lane == local % size);
}
