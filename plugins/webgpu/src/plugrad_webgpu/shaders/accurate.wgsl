// Mathematical functions. The built-in ones may have large errors (on lavapipe 62 units in the last place for
// exp, and 3e-4 for asin). These stay within a few units, as tests/plugins/webgpu/test_accuracy.py measures,
// and follow IEEE 754 for arguments and results that are NaN or infinite.

// --- exponentials and logarithms

// exp(r) - 1 for |r| <= ln(2)/2; the polynomial of Cephes; its pairs of terms do not wait for each other
fn expm1_reduced(r: f32) -> f32 {
  let square = r * r;
  var p = 1.9875691500e-4 * r + 1.3981999507e-3;
  p = p * square + (8.3334519073e-3 * r + 4.1665795894e-2);
  p = p * square + (1.6666665459e-1 * r + 5.0000001201e-1);
  return p * square + r;
}

fn exp_reduced(r: f32) -> f32 {
  return expm1_reduced(r) + 1.0;
}

fn exp_accurate(x: f32) -> f32 {
  if (is_nan(x)) { return x; }
  if (x > 88.72284) { return infinity(); }
  if (x < -103.97) { return 0.0; }
  let n = floor(x * 1.44269504088896341 + 0.5);
  // ln(2) in two parts; the first has few bits, so that its product with n is exact
  let r = (x - n * 0.693359375) - n * -2.12194440e-4;
  return scaled(exp_reduced(r), i32(n));
}

fn expm1_accurate(x: f32) -> f32 {
  if (x == 0.0) { return x; }  // the polynomial loses the sign of -0
  if (!(abs(x) < 40.0)) { return exp_accurate(x) - 1.0; }
  return expm1_bounded(x);
}

// exp(x) - 1 for |x| <= 40; without the sign of -0
fn expm1_bounded(x: f32) -> f32 {
  let n = floor(x * 1.44269504088896341 + 0.5);
  let rest = expm1_reduced((x - n * 0.693359375) - n * -2.12194440e-4);
  let power = power_of_two(i32(n));
  return select((power - 1.0) + power * rest, rest, n == 0.0);
}

// log(1 + f) + k ln(2) for 1 + f in [sqrt(1/2), sqrt(2)]; the polynomial of logf in FreeBSD
fn log_reduced(f: f32, k: f32) -> f32 {
  let s = f / (2.0 + f);
  let z = s * s;
  let w = z * z;
  let r = z * (0.66666662693 + w * 0.28498786688) + w * (0.40000972152 + w * 0.24279078841);
  let half = 0.5 * f * f;
  return k * 0.69313812256 - ((half - (s * (half + r) + k * 9.0580006145e-6)) - f);
}

// f and k with x = (1 + f) 2^k
fn log_parts(x: f32) -> vec2f {
  let is_tiny = x < 1.17549435e-38;
  let bits = bitcast<i32>(select(x, x * 8388608.0, is_tiny));
  let k = (bits - 0x3f3504f3) >> 23u;
  return vec2f(bitcast<f32>(bits - (k << 23u)) - 1.0, f32(k) - select(0.0, 23.0, is_tiny));
}

// The logarithm of an x outside (0, infinity)
fn log_special(x: f32) -> f32 {
  return select(select(nan(), x, is_infinite(x) && x > 0.0), -infinity(), x == 0.0);
}

fn log_accurate(x: f32) -> f32 {
  if (!(x > 0.0) || is_nan(x) || is_infinite(x)) { return log_special(x); }
  let parts = log_parts(x);
  return log_reduced(parts.x, parts.y);
}

fn log2_accurate(x: f32) -> f32 {
  if (!(x > 0.0) || is_nan(x) || is_infinite(x)) { return log_special(x); }
  let parts = log_parts(x);
  return parts.y + log_reduced(parts.x, 0.0) * 1.44269504088896341;
}

fn log10_accurate(x: f32) -> f32 {
  if (!(x > 0.0) || is_nan(x) || is_infinite(x)) { return log_special(x); }
  let parts = log_parts(x);
  // log10(2) in two parts; the first has few bits, so that its product with k is exact
  let low = parts.y * 7.9034151668e-7 + log_reduced(parts.x, 0.0) * 0.43429448190325182;
  return parts.y * 3.0102920532e-1 + low;
}

fn log1p_accurate(x: f32) -> f32 {
  if (x == 0.0) { return x; }
  if (x > -0.2929 && x < 0.4142) { return log_reduced(x, 0.0); }
  return log_accurate(1.0 + x);
}

// log(1 + x) for x in [0, 1]. 1 + x is (1 + f) 2^k, where f is exact, and 1 + x would be rounded.
fn log1p_of_fraction(x: f32) -> f32 {
  let is_above = x > 0.4142;
  return log_reduced(select(x, 0.5 * x - 0.5, is_above), select(0.0, 1.0, is_above));
}

fn softplus(x: f32) -> f32 {
  return maximum(x, 0.0) + log1p_of_fraction(exp_accurate(-abs(x)));
}

fn sigmoid(x: f32) -> f32 {
  if (is_nan(x)) { return x; }
  return 1.0 / (1.0 + exp_accurate(-x));
}

fn log_add_exp(a: f32, b: f32) -> f32 {
  let larger = maximum(a, b);
  if (is_nan(larger)) { return larger; }
  if (is_infinite(larger)) { return larger; }
  return larger + log1p_of_fraction(exp_accurate(-abs(a - b)));
}

fn hypotenuse(a: f32, b: f32) -> f32 {
  if (is_infinite(a) || is_infinite(b)) { return infinity(); }
  let larger = maximum(abs(a), abs(b));
  if (is_nan(larger) || larger == 0.0) { return larger; }
  let ratio = divide(minimum(abs(a), abs(b)), larger);
  return larger * sqrt(1.0 + ratio * ratio);
}

// --- hyperbolic functions

fn sinh_accurate(x: f32) -> f32 {
  let a = abs(x);
  if (a > 40.0) {
    let root = exp_accurate(0.5 * a);
    return with_sign(0.5 * root * root, x);
  }
  let e = expm1_bounded(a);
  let result = 0.5 * (e + e / (e + 1.0));
  return select(with_sign(result, x), x, is_nan(x));
}

fn cosh_accurate(x: f32) -> f32 {
  let a = abs(x);
  if (a > 40.0) {
    let root = exp_accurate(0.5 * a);
    return 0.5 * root * root;
  }
  let e = exp_accurate(a);
  return 0.5 * e + 0.5 / e;
}

fn tanh_accurate(x: f32) -> f32 {
  let e = expm1_bounded(2.0 * min(abs(x), 10.0));
  return select(with_sign(e / (e + 2.0), x), x, is_nan(x));
}

fn asinh_accurate(x: f32) -> f32 {
  let a = abs(x);
  if (is_nan(x) || is_infinite(x)) { return x; }
  if (a > 1.0e8) { return with_sign(log_accurate(a) + 0.69314718, x); }
  return with_sign(log1p_accurate(a + a * a / (1.0 + sqrt(a * a + 1.0))), x);
}

fn acosh_accurate(x: f32) -> f32 {
  if (is_nan(x) || x < 1.0) { return nan(); }
  if (x > 1.0e8) { return log_accurate(x) + 0.69314718; }
  let t = x - 1.0;
  return log1p_accurate(t + sqrt(2.0 * t + t * t));
}

fn atanh_accurate(x: f32) -> f32 {
  let a = abs(x);
  if (is_nan(x) || a > 1.0) { return nan(); }
  if (a == 1.0) { return with_sign(infinity(), x); }
  return with_sign(0.5 * log1p_accurate(2.0 * a / (1.0 - a)), x);
}

// --- trigonometric functions; the polynomials are those of Cephes
//
// The built-in functions may be off by 2^-11, and are wrong for large angles.

// sin(r) and cos(r) for |r| <= pi/4
fn sin_reduced(r: f32) -> f32 {
  let z = r * r;
  let p = (-1.9515295891e-4 * z + 8.3321608736e-3) * z - 1.6666654611e-1;
  return select(p * z * r + r, r, abs(r) < 1.0e-4);  // the sum loses the sign of -0
}

fn cos_reduced(r: f32) -> f32 {
  let z = r * r;
  let p = (2.443315711809948e-5 * z - 1.388731625493765e-3) * z + 4.166664568298827e-2;
  return (p * z * z - 0.5 * z) + 1.0;
}

fn sin_accurate(x: f32) -> f32 {
  return sin_of(reduced_angle(x), 0);
}

fn cos_accurate(x: f32) -> f32 {
  return sin_of(reduced_angle(x), 1);
}

fn tan_accurate(x: f32) -> f32 {
  let angle = reduced_angle(x);
  let r = angle.x;
  let z = r * r;
  var p = 9.38540185543e-3;
  p = p * z + 3.11992232697e-3;
  p = p * z + 2.44301354525e-2;
  p = p * z + 5.34112807005e-2;
  p = p * z + 1.33387994085e-1;
  p = p * z + 3.33331568548e-1;
  let y = select(p * z * r + r, r, abs(r) < 1.0e-4);
  return select(y, -1.0 / y, (i32(angle.y) & 1) != 0);
}

// The sine of an angle that is a rest and a number of quarter turns, to which more are added
fn sin_of(angle: vec2f, more: i32) -> f32 {
  let quarters = i32(angle.y) + more;
  let y = select(sin_reduced(angle.x), cos_reduced(angle.x), (quarters & 1) != 0);
  return select(y, -y, (quarters & 2) != 0);
}

// A rest in [-pi/4, pi/4] and a number of quarter turns. An infinite angle does not have a sine.
fn reduced_angle(x: f32) -> vec2f {
  if (is_nan(x) || is_infinite(x)) { return vec2f(nan(), 0.0); }
  if (abs(x) > 4096.0) { return far_angle(x); }
  let n = round(x * 0.636619772);
  // pi/2 in four parts; the first three have few bits, so that their products with n are exact
  let rest = ((x - n * 1.5703125) - n * 4.837512969970703e-4) - n * 7.549533620476723e-8;
  return vec2f(select(rest - n * 2.5633440682570896e-12, x, n == 0.0), n);  // x may be -0
}

fn high_word(a: u32, b: u32) -> u32 {
  let low = (a & 0xffffu) * (b & 0xffffu);
  let middle = (a >> 16u) * (b & 0xffffu) + (low >> 16u);
  let other = (a & 0xffffu) * (b >> 16u) + (middle & 0xffffu);
  return (a >> 16u) * (b >> 16u) + (middle >> 16u) + (other >> 16u);
}

fn word_of_2_over_pi(i: u32) -> u32 {
  var word = select(0u, 0x28be60dbu, i == 1u);
  word = select(word, 0x9391054au, i == 2u);
  word = select(word, 0x7f09d5f4u, i == 3u);
  word = select(word, 0x7d4d3770u, i == 4u);
  word = select(word, 0x36d8a566u, i == 5u);
  word = select(word, 0x4f10e410u, i == 6u);
  return select(word, 0x7f9458eau, i == 7u);
}

fn shifted_word(high: u32, low: u32, shift: u32) -> u32 {
  return (high << shift) | ((low >> 1u) >> (31u - shift));
}

// The same for a large angle, by the method of Payne and Hanek: the product of the significand and those bits of
// 2/pi that matter for the last turn.
fn far_angle(x: f32) -> vec2f {
  let bits = bitcast<u32>(x);
  let power = ((bits >> 23u) & 0xffu) - 126u;
  let first = power >> 5u;
  let shift = power & 31u;
  let significand = (bits << 8u) | 0x80000000u;
  let middle = shifted_word(word_of_2_over_pi(first + 1u), word_of_2_over_pi(first + 2u), shift);
  let carried = high_word(significand, shifted_word(word_of_2_over_pi(first + 2u), word_of_2_over_pi(first + 3u), shift));
  let low = significand * middle + carried;
  let high = significand * shifted_word(word_of_2_over_pi(first), word_of_2_over_pi(first + 1u), shift)
    + high_word(significand, middle) + u32(low < carried);
  // The two leading bits count quarters; the fraction is rounded to the nearest one.
  let is_above = (high & 0x20000000u) != 0u;
  let rest_low = select(low, 0u - low, is_above);
  let fraction = high & 0x3fffffffu;
  let rest_high = select(fraction, 0x40000000u - fraction - u32(low != 0u), is_above);
  let rest = (f32(rest_high) * 9.31322575e-10 + f32_of_u32(rest_low) * 2.16840434e-19) * 1.57079632679;
  let quarters = f32((high >> 30u) + u32(is_above));
  let is_opposite = is_above != is_negative(x);
  return vec2f(select(rest, -rest, is_opposite), select(quarters, -quarters, is_negative(x)));
}

fn atan_accurate(x: f32) -> f32 {
  if (is_nan(x)) { return x; }
  let a = abs(x);
  var t = a;
  var offset = 0.0;
  if (a > 2.414213562) {
    offset = 1.57079632679;
    t = -1.0 / a;
  } else if (a > 0.4142135624) {
    offset = 0.785398163397;
    t = (a - 1.0) / (a + 1.0);
  }
  let z = t * t;
  let p = ((8.05374449538e-2 * z - 1.38776856032e-1) * z + 1.99777106478e-1) * z - 3.33329491539e-1;
  return with_sign(offset + (p * z * t + t), x);
}

fn atan2_accurate(y: f32, x: f32) -> f32 {
  if (is_nan(x) || is_nan(y)) { return nan(); }
  if (is_infinite(x) && is_infinite(y)) {
    return with_sign(select(0.785398163397, 2.35619449019, is_negative(x)), y);
  }
  if (x == 0.0 && y == 0.0) {
    return with_sign(select(0.0, 3.14159265359, is_negative(x)), y);
  }
  let a = atan_accurate(divide(abs(y), abs(x)));
  return with_sign(select(a, 3.14159265359 - a, is_negative(x)), y);
}

// asin(a) / a - 1 for a = sqrt(z) <= 1/2
fn asin_reduced(z: f32) -> f32 {
  var p = 4.2163199048e-2;
  p = p * z + 2.4181311049e-2;
  p = p * z + 4.5470025998e-2;
  p = p * z + 7.4953002686e-2;
  p = p * z + 1.6666752422e-1;
  return p * z;
}

fn asin_accurate(x: f32) -> f32 {
  let a = abs(x);
  if (is_nan(x) || a > 1.0) { return nan(); }
  if (a > 0.5) {
    let z = 0.5 * (1.0 - a);
    let root = sqrt(z);
    return with_sign(1.57079632679 - 2.0 * (root + root * asin_reduced(z)), x);
  }
  return with_sign(a + a * asin_reduced(a * a), x);
}

fn acos_accurate(x: f32) -> f32 {
  let a = abs(x);
  if (is_nan(x) || a > 1.0) { return nan(); }
  if (a > 0.5) {
    let z = 0.5 * (1.0 - a);
    let root = sqrt(z);
    let result = 2.0 * (root + root * asin_reduced(z));
    return select(result, 3.14159265359 - result, x < 0.0);
  }
  return 1.57079632679 - (x + x * asin_reduced(x * x));
}

// Rational approximations after N. Juffa, "Accurate error function in single precision" (2020)
fn erf_accurate(x: f32) -> f32 {
  if (is_nan(x)) { return x; }
  let a = abs(x);
  let s = x * x;
  if (a < 0.921875) {
    var p = -5.99104969e-4;
    p = p * s + 4.99339588e-3;
    p = p * s - 2.67667342e-2;
    p = p * s + 1.12818025e-1;
    p = p * s - 3.76124859e-1;
    p = p * s + 1.28379151e-1;
    return p * x + x;
  }
  if (a > 4.0) { return with_sign(1.0, x); }
  var p = -1.72853470e-5 * a + 3.83197126e-4;
  let q = -3.88396438e-3 * a + 2.42546219e-2;
  p = p * s + q;
  p = p * a - 1.06777877e-1;
  p = p * a - 6.34846687e-1;
  p = p * a - 1.28717512e-1;
  p = p * a - a;
  return with_sign(1.0 - exp_accurate(p), x);
}

// --- gelu: x P(x), where P is the distribution of a normal number, and p its density; or x s(x), where s is a sigmoid
// that is close to P. Far from 0, the limits are reached: 0 must not meet infinity.

// P(-m) / exp(-m^2 / 2) of 0 <= m <= 14.5, with the least relative error of the polynomial
fn tail_factor(m: f32) -> f32 {
  let inverse = 1.0 / (m + 4.0);
  let t = (m - 4.0) * inverse;
  var p = -0.0001235153559;
  p = p * t + 0.0001935910708;
  p = p * t + 0.001568784782;
  p = p * t - 0.003523051908;
  p = p * t - 0.007526833246;
  p = p * t + 0.0604064176;
  p = p * t - 0.1865230677;
  p = p * t + 0.3871366799;
  p = p * t - 0.6078966037;
  p = p * t + 0.7552851385;
  return p * inverse;
}

// exp(-m^2 / 2). The square of the upper half of the digits is exact.
fn bell(m: f32) -> f32 {
  let upper = bitcast<f32>(bitcast<u32>(m) & 0xfffff000u);
  return exp_accurate(upper * upper * -0.5) * exp_accurate((upper - m) * (upper + m) * 0.5);
}

fn gelu(x: f32) -> f32 {
  let m = minimum(abs(x), 14.5);
  return select(-0.0, x, x > 0.0 || is_nan(x)) - m * tail_factor(m) * bell(m);
}

fn gelu_slope(x: f32) -> f32 {
  let m = minimum(abs(x), 14.5);
  let rest = (0.39894228 * m - tail_factor(m)) * bell(m);
  return select(-rest, 1.0 + rest, x > 0.0);
}

fn gelu_tanh(x: f32) -> f32 {
  let v = maximum(x, -40.0);
  return v * sigmoid(v * (1.5957691 + 0.071354816 * v * v));
}

fn gelu_tanh_slope(x: f32) -> f32 {
  let v = minimum(maximum(x, -40.0), 40.0);
  let inner = v * (1.5957691 + 0.071354816 * v * v);
  let e = exp_accurate(-abs(inner));
  let product = e / ((1.0 + e) * (1.0 + e));  // of s and 1 - s, which loses digits where s is close to 1
  return select(1.0, e, inner < 0.0) / (1.0 + e) + v * (1.5957691 + 0.21406445 * v * v) * product;
}

// --- powers

// x^n by repeated squaring
fn integer_power(x: f32, n: u32) -> f32 {
  var result = 1.0;
  var factor = x;
  var rest = n;
  while (rest != 0u) {
    if ((rest & 1u) == 1u) { result = result * factor; }
    factor = factor * factor;
    rest = rest >> 1u;
  }
  return result;
}

// a^y = 2^(y log2(a)) for finite a > 0. A relative error of the logarithm would grow with it. So the logarithm is
// a sum of a number with few bits, whose product with such a part of y is exact, and a small rest.
fn positive_power(a: f32, y: f32) -> f32 {
  let parts = log_parts(a);
  let f = parts.x;
  let k = parts.y;
  // s = f / (2 + f), where log(1 + f) = 2 s + s z (2/3 + 2/5 z + ...) with z = s^2
  let below = leading(2.0 + f);
  let below_rest = f - (below - 2.0);
  let s = f / (2.0 + f);
  let s_high = leading(s);
  let s_rest = ((f - s_high * below) - s_high * below_rest) / (2.0 + f);
  let z = s * s;
  let w = z * z;
  let r = z * (0.66666662693 + w * 0.28498786688) + w * (0.40000972152 + w * 0.24279078841);
  // log2(e) in two parts
  let l = 2.0 * s_high * 1.4423828125;
  let l_rest = 2.0 * s_high * 3.1222838e-4 + (2.0 * s_rest + s * r) * 1.44269504;
  let high = leading(k + (l + l_rest));
  let rest = ((k - high) + l) + l_rest;
  let estimate = y * (high + rest);
  if (estimate >= 128.0) { return infinity(); }
  if (estimate < -150.0) { return 0.0; }
  let y_high = leading(y);
  let product = y_high * high;
  let product_rest = (y - y_high) * high + y * rest;
  let n = floor(product + product_rest + 0.5);
  return scaled(exp_reduced(((product - n) + product_rest) * 0.69314718), i32(n));
}

fn power(x: f32, y: f32) -> f32 {
  if (y == 0.0 || x == 1.0) { return 1.0; }
  if (is_nan(x) || is_nan(y)) { return nan(); }
  let a = abs(x);
  if (is_infinite(y)) {
    if (a == 1.0) { return 1.0; }
    return select(0.0, infinity(), (a > 1.0) == (y > 0.0));
  }
  let is_integer = floor(y) == y;
  let is_odd = is_integer && abs(y) < 16777216.0 && (i32(y) & 1) != 0;
  let sign = select(1.0, x, is_odd);
  if (x == 0.0 || is_infinite(x)) {
    return with_sign(select(0.0, infinity(), (a > 0.0) == (y > 0.0)), sign);
  }
  if (x < 0.0 && !is_integer) { return nan(); }
  // Small integer exponents are common; their products are exact where the result can be exact.
  if (is_integer && y > 0.0 && y <= 16.0) { return with_sign(integer_power(a, u32(y)), sign); }
  return with_sign(positive_power(a, y), sign);
}

fn power_i32(x: i32, y: i32) -> i32 {
  if (y < 0) {
    if (x == 1) { return 1; }
    return select(0, select(1, -1, (y & 1) != 0), x == -1);
  }
  // Signed and unsigned products wrap around alike.
  return bitcast<i32>(power_u32(bitcast<u32>(x), u32(y)));
}

fn power_u32(x: u32, y: u32) -> u32 {
  var result = 1u;
  var factor = x;
  var rest = y;
  while (rest != 0u) {
    if ((rest & 1u) == 1u) { result = result * factor; }
    factor = factor * factor;
    rest = rest >> 1u;
  }
  return result;
}
