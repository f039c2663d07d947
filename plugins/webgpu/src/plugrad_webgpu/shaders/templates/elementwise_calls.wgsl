  // The calls of a chain for the elements at `index`
  var rest = index;
  // The last axis needs no division.
  @repeat(axis, places) let next$axis = quotient(rest, parameters.sizes[$axis]); let at$axis = rest - next$axis * parameters.sizes[$axis]; rest = next$axis;
  $last
$loads
$values
$stores
