// The functions of reduction.wgsl for vectors of elements

fn combine_vectors(a: vec4<$T>, b: vec4<$T>) -> vec4<$T> {
  return vec4<$T>(combine(a.x, b.x), combine(a.y, b.y), combine(a.z, b.z), combine(a.w, b.w));
}

fn combine_lanes(v: vec4<$T>) -> $T { return combine(combine(v.x, v.y), combine(v.z, v.w)); }

fn filled_up(v: vec4<$T>, k: u32) -> vec4<$T> {
  if (4u * k + 4u <= parameters.size) { return v; }
  return select(vec4<$T>(parameters.identity), v, vec4u(0u, 1u, 2u, 3u) + 4u * k < vec4u(parameters.size));
}
