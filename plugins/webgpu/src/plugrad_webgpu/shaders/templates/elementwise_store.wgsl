// What follows a shader's own work: a chain of calls of the result that it gives at an index, as in elementwise.wgsl

$bindings

$functions

fn store(index: u32, value: $element) {
  var rest = index;
  @repeat(axis, places) let next$axis = rest / parameters.sizes[$axis]; let at$axis = rest - next$axis * parameters.sizes[$axis]; rest = next$axis;
  $last
$loads
$values
$stores
}
