// Functions of complex numbers, which are vectors of a real and an imaginary part. They stay within a few units
// in the last place of the absolute value, and give NaN and infinity where NumPy does, up to their signs.
//
// Squares of single precision overflow or vanish soon. So numbers are scaled by powers of two first.

// --- parts

fn complex_turned(z: vec2f) -> vec2f {  // i z
  return vec2f(-z.y, z.x);
}

fn complex_turned_back(z: vec2f) -> vec2f {  // -i z
  return vec2f(z.y, -z.x);
}

// The larger part; NaN is not the larger one
fn complex_size(z: vec2f) -> f32 {
  let a = select(abs(z.x), 0.0, is_nan(z.x));
  let b = select(abs(z.y), 0.0, is_nan(z.y));
  return select(a, b, b > a);
}

fn complex_is_nan(z: vec2f) -> bool {
  return is_nan(z.x) || is_nan(z.y);
}

fn complex_is_infinite(z: vec2f) -> bool {
  return is_infinite(z.x) || is_infinite(z.y);
}

// The n with 2^n <= x < 2^(n + 1) for a normal number; 0 for 0 and infinity
fn complex_exponent(x: f32) -> i32 {
  return select(max(exponent(x), 1) - 127, 0, x == 0.0 || is_infinite(x));
}

// --- arithmetic

fn complex_product(a: vec2f, b: vec2f) -> vec2f {
  return vec2f(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}

fn complex_square(z: vec2f) -> vec2f {
  return vec2f((z.x - z.y) * (z.x + z.y), z.x * z.y * 2.0);
}

fn complex_quotient(a: vec2f, b: vec2f) -> vec2f {
  let size = complex_size(b);
  if (size == 0.0 && !complex_is_nan(b)) {  // 0 / 0 might be folded to 0
    return vec2f(
      select(a.x * infinity(), nan(), a.x == 0.0), select(a.y * infinity(), nan(), a.y == 0.0)
    );
  }
  if (is_infinite(size)) {
    let is_steep = abs(b.y) == size && !(abs(b.x) == size);
    let c = select(b, complex_turned_back(b), is_steep);
    let ratio = c.y / c.x;
    let scale = 1.0 / (c.x + c.y * ratio);
    let d = select(a, complex_turned_back(a), is_steep);
    return vec2f((d.x + d.y * ratio) * scale, (d.y - d.x * ratio) * scale);
  }
  let down = complex_exponent(size);
  let up = complex_exponent(complex_size(a));
  let c = vec2f(scaled(b.x, -down), scaled(b.y, -down));
  let d = vec2f(scaled(a.x, -up), scaled(a.y, -up));
  let y = complex_product(d, vec2f(c.x, -c.y)) / (c.x * c.x + c.y * c.y);
  return vec2f(scaled(y.x, up - down), scaled(y.y, up - down));
}

fn complex_inverse(z: vec2f) -> vec2f {
  if (z.x == 0.0 && z.y == 0.0) { return vec2f(nan(), nan()); }
  return complex_quotient(vec2f(1.0, 0.0), z);
}

// --- roots, exponentials, logarithms and powers

fn complex_sqrt(z: vec2f) -> vec2f {
  if (is_infinite(z.y)) { return vec2f(infinity(), z.y); }
  if (is_infinite(z.x)) {
    if (z.x > 0.0) { return vec2f(z.x, select(with_sign(0.0, z.y), z.y, is_nan(z.y))); }
    return vec2f(select(0.0, z.y, is_nan(z.y)), with_sign(infinity(), z.y));
  }
  if (complex_is_nan(z)) { return vec2f(nan(), nan()); }
  if (z.x == 0.0 && z.y == 0.0) { return vec2f(0.0, z.y); }
  let half = complex_exponent(complex_size(z)) >> 1u;
  let x = abs(scaled(z.x, -2 * half));
  let y = abs(scaled(z.y, -2 * half));
  let root = sqrt(0.5 * (x + hypotenuse(x, y)));
  let large = scaled(root, half);
  let small = abs(scaled(z.y, -half)) / (2.0 * root);  // y may be so small that it was flushed to 0
  return vec2f(select(large, small, z.x < 0.0), with_sign(select(small, large, z.x < 0.0), z.y));
}

// The parts of r (cos(angle) + i sin(angle)) with r = exp(x) factor, also where r alone overflows
fn complex_polar(x: f32, factor: f32, angle: f32) -> vec2f {
  if (is_infinite(x) && (is_nan(angle) || is_infinite(angle))) {
    return select(vec2f(0.0, 0.0), vec2f(x, nan()), x > 0.0);
  }
  let direction = vec2f(cos_accurate(angle), sin_accurate(angle));
  if (x < 80.0) { return exp_accurate(x) * factor * direction; }
  let root = exp_accurate(0.5 * x);
  return root * factor * direction * root;
}

fn complex_exp(z: vec2f) -> vec2f {
  if (z.y == 0.0) { return vec2f(exp_accurate(z.x), z.y); }
  return complex_polar(z.x, 1.0, z.y);
}

fn complex_expm1(z: vec2f) -> vec2f {
  if (z.y == 0.0) { return vec2f(select(expm1_accurate(z.x), 0.0, z.x == 0.0), z.y); }
  if (!(abs(z.x) < 50.0)) { return complex_exp(z) - vec2f(1.0, 0.0); }
  let half = sin_accurate(0.5 * z.y);
  return vec2f(
    expm1_accurate(z.x) * cos_accurate(z.y) - 2.0 * half * half,
    exp_accurate(z.x) * sin_accurate(z.y),
  );
}

// log(|z|), by log1p near the unit circle, where the length rounds to 1
fn complex_log_length(z: vec2f) -> f32 {
  let large = complex_size(z);
  let small = select(abs(z.y), abs(z.x), abs(z.y) == large);
  if (large > 0.5 && large < 2.0 && !complex_is_nan(z)) {
    return 0.5 * log1p_accurate((large - 1.0) * (large + 1.0) + small * small);
  }
  if (large > 1.0e38) { return log_accurate(hypotenuse(0.25 * z.x, 0.25 * z.y)) + 1.38629436; }
  if (large < 1.0e-30) { return log_accurate(hypotenuse(1.0e30 * z.x, 1.0e30 * z.y)) - 69.0775528; }
  return log_accurate(hypotenuse(z.x, z.y));
}

fn complex_log(z: vec2f) -> vec2f {
  return vec2f(complex_log_length(z), atan2_accurate(z.y, z.x));
}

fn complex_log1p(z: vec2f) -> vec2f {
  if (z.x < -0.5 || !(complex_size(z) < 1.0e3)) { return complex_log(vec2f(1.0 + z.x, z.y)); }
  return vec2f(
    0.5 * log1p_accurate(z.x * (z.x + 2.0) + z.y * z.y),
    atan2_accurate(z.y, 1.0 + z.x),
  );
}

fn complex_sigmoid(z: vec2f) -> vec2f {
  let y = complex_exp(select(z, -z, z.x > 0.0));
  let one = vec2f(1.0, 0.0);
  return complex_quotient(select(y, one, z.x > 0.0), one + y);
}

// Small whole exponents by squaring
fn complex_power(a: vec2f, b: vec2f) -> vec2f {
  if (b.x == 0.0 && b.y == 0.0) { return vec2f(1.0, 0.0); }
  if (a.x == 0.0 && a.y == 0.0) {
    return select(vec2f(nan(), nan()), vec2f(0.0, 0.0), b.x > 0.0);
  }
  if (b.y != 0.0 || b.x != round(b.x) || !(abs(b.x) < 100.0)) {
    return complex_exp(complex_product(b, complex_log(a)));
  }
  var y = a;
  var factor = a;
  for (var n = u32(abs(b.x)) - 1u; n != 0u; n >>= 1u) {
    if ((n & 1u) == 1u) { y = complex_product(y, factor); }
    factor = complex_product(factor, factor);
  }
  if (b.x < 0.0) { return complex_inverse(y); }
  return y;
}

// --- hyperbolic functions; those of angles are the same of i z

fn complex_sinh(z: vec2f) -> vec2f {
  if (z.y == 0.0) { return vec2f(sinh_accurate(z.x), z.y); }
  if (abs(z.x) > 40.0) {
    let y = complex_polar(abs(z.x), 0.5, z.y);
    return select(y, vec2f(-y.x, y.y), z.x < 0.0);
  }
  let real = select(sinh_accurate(z.x) * cos_accurate(z.y), z.x, z.x == 0.0);
  return vec2f(real, cosh_accurate(z.x) * sin_accurate(z.y));
}

fn complex_cosh(z: vec2f) -> vec2f {
  if (z.x == 0.0 || z.y == 0.0) {
    return vec2f(cosh_accurate(z.x) * cos_accurate(z.y), complex_sign_of_zero(z));
  }
  if (abs(z.x) > 40.0) {
    let y = complex_polar(abs(z.x), 0.5, z.y);
    return select(y, vec2f(y.x, -y.y), z.x < 0.0);
  }
  return vec2f(cosh_accurate(z.x) * cos_accurate(z.y), sinh_accurate(z.x) * sin_accurate(z.y));
}

// A zero with the sign of the product of the parts
fn complex_sign_of_zero(z: vec2f) -> f32 {
  return select(0.0, -0.0, is_negative(z.x) != is_negative(z.y));
}

fn complex_tanh(z: vec2f) -> vec2f {
  if (z.y == 0.0) { return vec2f(tanh_accurate(z.x), z.y); }
  if (z.x == 0.0) { return vec2f(z.x, tan_accurate(z.y)); }
  if (is_infinite(z.x)) { return vec2f(with_sign(1.0, z.x), with_sign(0.0, z.y)); }
  let sine = sin_accurate(z.y);
  let cosine = cos_accurate(z.y);
  if (abs(z.x) > 10.0 && !is_nan(sine)) {
    return vec2f(with_sign(1.0, z.x), 4.0 * sine * cosine * exp_accurate(-2.0 * abs(z.x)));
  }
  let s = sinh_accurate(z.x);
  let c = cosh_accurate(z.x);
  return vec2f(s * c, sine * cosine) / (s * s + cosine * cosine);
}

// --- inverse functions: Hull, Fairgrieve and Tang, ACM TOMS 23 (1997)

// For a point: its angle in the ellipse through it whose foci are 1 and -1, as a sine and a cosine that share a
// factor, and the logarithm of the sum of the half axes.
fn complex_ellipse(z: vec2f) -> vec3f {
  let x = abs(z.x);
  let y = abs(z.y);
  let size = complex_size(z);
  if (size < 1.0e-4) {
    let sine = select(x, y, x != 0.0 && is_nan(y));
    return vec3f(sine, 1.0, select(y, x, is_nan(x)));
  }
  if (size > 1.0e4) { return vec3f(x, y, complex_log_length(z) + 0.69314718); }
  let far = hypotenuse(x + 1.0, y);
  let near = hypotenuse(x - 1.0, y);
  let axis = 0.5 * (far + near);
  // The half axis minus 1, and minus x, without cancellation; y is taken out of the roots, where its square
  // would vanish.
  let from_far = 1.0 / (far + x + 1.0);
  if (x < 1.0) {
    let beyond_1 = 0.5 * (from_far + 1.0 / (near + (1.0 - x)));
    let beyond_x = 0.5 * (y * y * from_far + near + (1.0 - x));
    let rest = y * (y * beyond_1 + sqrt(beyond_1 * (axis + 1.0)));
    return vec3f(x, sqrt(beyond_x * (axis + x)), log1p_accurate(rest));
  }
  let rest = near + (x - 1.0);
  let beyond_1 = 0.5 * (y * y * from_far + rest);
  let beyond_x = 0.5 * (from_far + select(0.0, 1.0 / max(rest, 1.0e-37), rest > 0.0));
  return vec3f(
    x,
    y * sqrt(beyond_x * (axis + x)),
    log1p_accurate(beyond_1 + sqrt(beyond_1 * (axis + 1.0))),
  );
}

fn complex_asin(z: vec2f) -> vec2f {
  let e = complex_ellipse(z);
  return vec2f(with_sign(atan2_accurate(e.x, e.y), z.x), with_sign(e.z, z.y));
}

fn complex_acos(z: vec2f) -> vec2f {
  let e = complex_ellipse(z);
  return vec2f(atan2_accurate(e.y, with_sign(e.x, z.x)), -with_sign(e.z, z.y));
}

fn complex_acosh(z: vec2f) -> vec2f {
  let y = complex_acos(z);
  return vec2f(abs(y.y), with_sign(y.x, z.y));
}

fn complex_atanh(z: vec2f) -> vec2f {
  let x = abs(z.x);
  if (x == 0.0 && is_nan(z.y)) { return z; }
  if (is_nan(x) && !is_infinite(z.y)) { return vec2f(x, x); }
  let size = complex_size(z);
  if (size > 1.0e8) {
    let length = hypotenuse(z.x, z.y);
    let real = select(x / length / length, 0.0, is_infinite(length));
    return vec2f(with_sign(real, z.x), select(with_sign(1.57079633, z.y), z.y, is_nan(z.y)));
  }
  let rest = (1.0 - x) * (1.0 - x) + z.y * z.y;
  var real = 0.25 * log1p_accurate(4.0 * x / rest);
  if (x == 1.0 && abs(z.y) < 1.0e-4) { real = 0.5 * (0.69314718 - log_accurate(abs(z.y))); }
  let imag = 0.5 * atan2_accurate(2.0 * z.y, (1.0 - x) * (1.0 + x) - z.y * z.y);
  return vec2f(with_sign(real, z.x), imag);
}
