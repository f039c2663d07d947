//! The functions of libm that zig has in its own language, by their names in C.

const math = @import("std").math;

export fn acos(x: f64) f64 {
    return math.acos(x);
}

export fn asin(x: f64) f64 {
    return math.asin(x);
}

export fn atan(x: f64) f64 {
    return math.atan(x);
}

export fn cosh(x: f64) f64 {
    return math.cosh(x);
}

export fn hypot(x: f64, y: f64) f64 {
    return math.hypot(x, y);
}

export fn log1p(x: f64) f64 {
    return math.log1p(x);
}
