// The cases of against_tfjs.py in TensorFlow.js on its WebAssembly backend, one thread.
//
// against_tfjs.py bundles this file, because Node cannot import the gradients of TensorFlow.js, and
// runs it with the folder of its .wasm files and "wall" or "processor", the time to measure. Each line
// of the input is "NAME REPEATS"; the answer is the milliseconds for all repeats.
import readline from 'readline';

import * as tf from '@tensorflow/tfjs-core';
import '@tensorflow/tfjs-core/dist/register_all_gradients';
import '@tensorflow/tfjs-core/dist/public/chained_ops/register_all_chained_ops';
import { setWasmPaths } from '@tensorflow/tfjs-backend-wasm';

// The numbers of uniform() in workloads.py.
function uniform(seed, shape, low = -1, high = 1) {
  const values = new Float32Array(shape.reduce((a, b) => a * b, 1));
  const start = (Math.imul(seed, 0x85ebca6b) + 1) >>> 0;
  const width = Math.fround(high - low);
  for (let i = 0; i < values.length; i++) {
    let h = (Math.imul(i, 0x9e3779b1) + start) >>> 0;
    h = Math.imul(h ^ (h >>> 16), 0x7feb352d) >>> 0;
    h = Math.imul(h ^ (h >>> 15), 0x846ca68b) >>> 0;
    h = (h ^ (h >>> 16)) >>> 0;
    values[i] = Math.fround(low) + Math.fround(width * ((h >>> 8) / 16777216));
  }
  return tf.tensor(values, shape, 'float32');
}

const weight = (seed, shape, fan) => uniform(seed, shape, -Math.sqrt(6 / fan), Math.sqrt(6 / fan));

const released = (compute) => () => compute().dispose();

function products(size) {
  const a = uniform(1, [size, size]), b = uniform(2, [size, size]);
  return released(() => tf.matMul(a, b));
}

function perceptron() {
  const x = uniform(1, [64, 784], 0, 1);
  const labels = uniform(2, [64], 0, 1).dataSync().map((v) => Math.floor(v * 10));
  const targets = tf.oneHot(tf.tensor1d(Int32Array.from(labels), 'int32'), 10);
  const sizes = [[784, 256], [256, 128], [128, 10]];
  const weights = sizes.map((shape, i) => tf.variable(weight(3 + i, shape, shape[0])));
  const biases = sizes.map((shape) => tf.variable(tf.zeros([shape[1]])));
  const optimizer = tf.train.sgd(0.1);
  return () => {
    const loss = optimizer.minimize(() => {
      let h = x;
      for (let i = 0; i < 3; i++) {
        h = tf.add(tf.matMul(h, weights[i]), biases[i]);
        if (i < 2) h = tf.relu(h);
      }
      return tf.losses.softmaxCrossEntropy(targets, h);
    }, true);
    loss.dataSync();
    loss.dispose();
  };
}

// MobileNetV2 (Sandler et al., 2018): expansion, channels, repeats, stride.
const STAGES = [[1, 16, 1, 1], [6, 24, 2, 2], [6, 32, 3, 2], [6, 64, 4, 2], [6, 96, 3, 1], [6, 160, 3, 2], [6, 320, 1, 1]];

function mobilenet() {
  let seed = 100;
  const layer = (kind, shape, fan, strides, activation) => ({
    kind, strides, activation,
    filter: weight(++seed, shape, fan),
    bias: uniform(++seed, [kind === 'depthwise' ? shape[2] : shape[3]], -0.1, 0.1),
  });
  const run = (x, { kind, filter, bias, strides, activation }) =>
    tf.fused[kind === 'depthwise' ? 'depthwiseConv2d' : 'conv2d']({ x, filter, bias, strides, pad: 'same', activation });
  const blocks = [];
  const first = layer('full', [3, 3, 3, 32], 27, 2, 'relu6');
  let channels = 32;
  for (const [expansion, out, repeats, stride] of STAGES)
    for (let i = 0; i < repeats; i++) {
      const inner = channels * expansion, layers = [];
      if (expansion > 1) layers.push(layer('full', [1, 1, channels, inner], channels, 1, 'relu6'));
      layers.push(layer('depthwise', [3, 3, inner, 1], 9, i ? 1 : stride, 'relu6'));
      layers.push(layer('full', [1, 1, inner, out], inner, 1, 'linear'));
      blocks.push({ layers, adds: i > 0 });
      channels = out;
    }
  const last = layer('full', [1, 1, 320, 1280], 320, 1, 'relu6');
  const head = weight(++seed, [1280, 1000], 1280), x = uniform(99, [1, 224, 224, 3]);
  return released(() => tf.tidy(() => {
    let h = run(x, first);
    for (const { layers, adds } of blocks) {
      const y = layers.reduce(run, h);
      h = adds ? tf.add(y, h) : y;
    }
    return tf.matMul(tf.mean(run(h, last), [1, 2]), head);
  }));
}

function cases() {
  const million = uniform(1, [1000000]), other = uniform(2, [1000000]), tens = uniform(3, [10000000]);
  const eight = uniform(4, [8]), table = uniform(5, [1000, 1000]);
  const image = uniform(6, [1, 56, 56, 64]), filter = weight(7, [3, 3, 64, 64], 576);
  const wide = uniform(8, [1, 112, 112, 64]), thin = weight(9, [3, 3, 64, 1], 9);
  return {
    'matmul 256': products(256), 'matmul 512': products(512), 'matmul 1024': products(1024),
    'conv 3x3': released(() => tf.conv2d(image, filter, 1, 'same')),
    depthwise: released(() => tf.depthwiseConv2d(wide, thin, 1, 'same')),
    add: released(() => tf.add(million, other)), mul: released(() => tf.mul(million, other)),
    relu: released(() => tf.relu(million)), exp: released(() => tf.exp(million)), tanh: released(() => tf.tanh(million)),
    sum: released(() => tf.sum(tens)), softmax: released(() => tf.softmax(table)),
    'add of 8': released(() => tf.add(eight, eight)), W1: perceptron(), W3: mobilenet(),
  };
}

const clocks = {
  wall: () => performance.now(),
  processor: () => {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1e3;
  },
};

async function main() {
  setWasmPaths(process.argv[2]);
  tf.env().set('WASM_HAS_MULTITHREAD_SUPPORT', false);
  await tf.setBackend('wasm');
  const all = cases(), clock = clocks[process.argv[3]];
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [name, repeats] = line.split(/ (?=\d+$)/), start = clock();
    for (let i = 0; i < +repeats; i++) all[name]();
    process.stdout.write(`${clock() - start}\n`);
  }
}

main();
