;; out = a * x + y for float32: the attribute is a, the second input may be absent.
(module
  (memory (export "memory") 1)
  (func (export "plugrad_abi_version") (result i32) (i32.const 1))
  (func (export "kernel") (param $call i32) (result i32)
    (local $tensors i32) (local $x i32) (local $y i32) (local $out i32) (local $end i32)
    (local $a f32)
    (local.set $a (f32.demote_f64 (f64.load (i32.load offset=8 (local.get $call)))))
    (local.set $tensors (i32.load offset=24 (local.get $call)))
    (if (i32.ne (i32.load offset=4 (local.get $tensors)) (i32.const 10))
      (then (return (i32.const 1))))
    (local.set $x (i32.load (local.get $tensors)))
    (local.set $y (i32.load offset=28 (local.get $tensors)))
    (local.set $out (i32.load offset=56 (local.get $tensors)))
    (local.set $end
      (i32.add (local.get $x)
        (i32.shl (i32.load offset=20 (local.get $tensors)) (i32.const 2))))
    (block $done
      (loop $next
        (br_if $done (i32.ge_u (local.get $x) (local.get $end)))
        (f32.store (local.get $out) (f32.mul (local.get $a) (f32.load (local.get $x))))
        (if (local.get $y)
          (then
            (f32.store (local.get $out)
              (f32.add (f32.load (local.get $out)) (f32.load (local.get $y))))
            (local.set $y (i32.add (local.get $y) (i32.const 4)))))
        (local.set $x (i32.add (local.get $x) (i32.const 4)))
        (local.set $out (i32.add (local.get $out) (i32.const 4)))
        (br $next)))
    (i32.const 0)))
