// What follows a shader's own work: a chain of calls of the result that it gives at an index

$bindings

$functions

fn store(index: u32, value: $element) {
$calls}
