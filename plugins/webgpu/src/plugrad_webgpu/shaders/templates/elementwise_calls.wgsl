  // The calls of a chain for the elements at `index`
  var rest = index;
  // A division takes longer than a load on software devices; the last axis needs none.
  @repeat(axis, places) let next$axis = rest / parameters.sizes[$axis]; let at$axis = rest - next$axis * parameters.sizes[$axis]; rest = next$axis;
  $last
$loads
$values
$stores
