// The rows of a matrix, as the left operand of a product

alias Rows = vec4u;

// Four rows from the first one
fn rows_at(first: u32) -> Rows { return min(vec4u(0u, 1u, 2u, 3u) + first, vec4u(parameters.rows - 1u)); }

fn run_at(rows: Rows, element: u32, run: u32) -> Run {
  return Run(vec4i(element * parameters.a_step + $a_start), vec4i(0), vec4i(i32($a_end)));
}
