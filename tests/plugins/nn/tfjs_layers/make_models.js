// TFJS=…/@tensorflow/tfjs node make_models.js RECORDS: makes small models of layers with seeded weights, and records
// them with an input and what TensorFlow.js computes of it. Nothing ends with a softmax, which would hide differences.
const fs = require("fs"), path = require("path");
const tf = require(path.join(process.env.TFJS, "dist/tf.node.js"));
const { layers } = tf;

function numbers(seed) { // a linear congruential generator; numbers from -1 to 1
  let state = seed;
  return () => { state = (state * 1103515245 + 12345) % 2147483648; return state / 1073741824 - 1; };
}

const relu = { activation: "relu" };
const chain = (...steps) => { const model = tf.sequential(); steps.forEach((step) => model.add(step)); return model; };

function mobile() {
  const input = tf.input({ shape: [8, 8, 3] });
  const block = (x, filters) => {
    let y = layers.depthwiseConv2d({ kernelSize: 3, padding: "same", useBias: false }).apply(x);
    y = layers.reLU({ maxValue: 6 }).apply(layers.batchNormalization({ epsilon: 0.001 }).apply(y));
    y = layers.conv2d({ filters, kernelSize: 1, useBias: false }).apply(y);
    return layers.batchNormalization().apply(y);
  };
  let x = layers.zeroPadding2d({ padding: [[0, 1], [0, 1]] }).apply(input);
  x = layers.conv2d({ filters: 4, kernelSize: 3, strides: 2, useBias: false }).apply(x);
  x = layers.reLU({ maxValue: 6 }).apply(layers.batchNormalization().apply(x));
  x = layers.add().apply([x, block(x, 4)]);
  x = layers.globalAveragePooling2d({}).apply(block(x, 6));
  return tf.model({ inputs: input, outputs: layers.dense({ units: 5 }).apply(layers.dropout({ rate: 0.2 }).apply(x)) });
}

function several() {
  const a = tf.input({ shape: [4], name: "left" }), b = tf.input({ shape: [4], name: "right" });
  const shared = layers.dense({ units: 3, activation: "tanh" });
  const x = shared.apply(a), y = shared.apply(b);
  const merged = [layers.add(), layers.multiply(), layers.average(), layers.maximum(), layers.minimum(), layers.concatenate()].map((l) => l.apply([x, y]));
  const dot = layers.dot({ axes: 1 }).apply([x, y]);
  return tf.model({ inputs: [a, b], outputs: [layers.concatenate().apply([...merged, dot]), layers.dense({ units: 2 }).apply(x)] });
}

function nested() {
  const inner = chain(layers.dense({ units: 3, activation: "elu", inputShape: [4] }), layers.dense({ units: 2 }));
  const a = tf.input({ shape: [4] }), b = tf.input({ shape: [4] });
  return tf.model({ inputs: [a, b], outputs: layers.concatenate().apply([inner.apply(a), inner.apply(b)]) });
}

const MODELS = {
  "convolutions": () => chain(
    layers.conv2d({ filters: 4, kernelSize: 3, padding: "same", inputShape: [8, 8, 2], ...relu }), layers.batchNormalization(),
    layers.maxPooling2d({ poolSize: 2 }), layers.separableConv2d({ filters: 3, kernelSize: 2, depthMultiplier: 2, activation: "swish" }),
    layers.depthwiseConv2d({ kernelSize: 2, depthMultiplier: 2, strides: 1 }), layers.flatten(), layers.dense({ units: 3 })),
  "mobile": mobile,
  "up and down": () => chain(
    layers.conv2dTranspose({ filters: 3, kernelSize: 3, strides: 2, padding: "same", inputShape: [3, 3, 2] }), layers.upSampling2d({ size: [2, 2] }),
    layers.cropping2D({ cropping: [[1, 2], [0, 1]] }), layers.averagePooling2d({ poolSize: 2, strides: 1, padding: "same" }), layers.globalMaxPooling2d({})),
  "volumes": () => chain(layers.conv3d({ filters: 2, kernelSize: 2, inputShape: [4, 4, 4, 1], padding: "same" }), layers.maxPooling3d({ poolSize: 2 }), layers.averagePooling3d({ poolSize: 2 }), layers.flatten()),
  "words": () => chain(layers.embedding({ inputDim: 10, outputDim: 4, inputLength: 5 }), layers.lstm({ units: 3, returnSequences: true }), layers.gru({ units: 3, recurrentActivation: "sigmoid" }), layers.dense({ units: 2 })),
  "both ways": () => chain(
    layers.bidirectional({ layer: layers.lstm({ units: 2, returnSequences: true }), mergeMode: "concat", inputShape: [4, 3] }),
    layers.bidirectional({ layer: layers.gru({ units: 2, returnSequences: true }), mergeMode: "ave" }),
    layers.timeDistributed({ layer: layers.dense({ units: 3, activation: "softsign" }) }), layers.simpleRNN({ units: 3, activation: "relu", useBias: false })),
  "gaps": () => chain(layers.embedding({ inputDim: 5, outputDim: 3, maskZero: true, inputLength: 6 }), layers.dense({ units: 3 }), layers.lstm({ units: 3, returnSequences: true }), layers.bidirectional({ layer: layers.gru({ units: 2 }), mergeMode: "concat" }), layers.dense({ units: 2 })),
  "hidden": () => chain(layers.masking({ maskValue: 0, inputShape: [4, 2] }), layers.simpleRNN({ units: 3 })),
  "films": () => chain(layers.convLstm2d({ filters: 2, kernelSize: 2, inputShape: [3, 4, 4, 1], padding: "valid", returnSequences: true }), layers.flatten()),
  "sequences": () => chain(
    layers.conv1d({ filters: 4, kernelSize: 3, padding: "same", inputShape: [6, 2] }), layers.leakyReLU({ alpha: 0.2 }), layers.maxPooling1d({ poolSize: 2 }),
    layers.prelu({ sharedAxes: [1], alphaInitializer: "randomNormal" }), layers.layerNormalization(), layers.permute({ dims: [2, 1] }), layers.averagePooling1d({ poolSize: 2 }), layers.globalAveragePooling1d({})),
  "functions": () => chain(
    layers.dense({ units: 6, activation: "selu", inputShape: [4] }), layers.activation({ activation: "hardSigmoid" }), layers.reshape({ targetShape: [2, 3] }), layers.softmax({ axis: -1 }),
    layers.flatten(), layers.dense({ units: 3, activation: "softplus", useBias: false }), layers.repeatVector({ n: 2 }), layers.dense({ units: 3, activation: "relu6" }), layers.elu({}), layers.rescaling({ scale: 2, offset: -1 }),
    layers.dense({ units: 2, activation: "mish" })),
  "several": several,
  "nested": nested,
  "cells": () => chain(
    layers.rnn({ cell: layers.gruCell({ units: 3 }), returnSequences: true, inputShape: [4, 3] }),
    layers.rnn({ cell: layers.stackedRNNCells({ cells: [layers.lstmCell({ units: 3, recurrentActivation: "sigmoid" }), layers.gruCell({ units: 2 })] }), returnSequences: true }),
    layers.rnn({ cell: layers.simpleRNNCell({ units: 3 }) }), layers.alphaDropout({ rate: 0.3 })),
  "cropped": () => chain(
    layers.upSampling2d({ size: [2, 3], interpolation: "bilinear", inputShape: [4, 4, 2] }), layers.centerCrop({ height: 5, width: 6 }), layers.reLU({ maxValue: 0.7 }),
    layers.centerCrop({ height: 3, width: 3 })),
  "categories": () => chain(layers.categoryEncoding({ numTokens: 6, outputMode: "count", inputShape: [6] }), layers.dense({ units: 2 })),
  "flags": () => chain(layers.categoryEncoding({ numTokens: 4, inputShape: [4] }), layers.dense({ units: 2 })),
  "thresholds": () => chain(layers.thresholdedReLU({ theta: 0.2, inputShape: [4] }), layers.dense({ units: 3 }), layers.thresholdedReLU({ theta: 0.05 })),
};

const plain = (t) => ({ dtype: t.dtype, shape: t.shape, data: Array.from(t.dataSync()) });

(async () => {
  console.warn = () => {};
  await tf.setBackend("cpu");
  const records = {};
  for (const [place, [name, make]] of Object.entries(MODELS).entries()) {
    const model = make(), next = numbers(place + 1);
    model.setWeights(model.weights.map((w) => {
      const values = Float32Array.from({ length: w.shape.reduce((a, b) => a * b, 1) }, next);
      const scaled = w.originalName.endsWith("variance") ? values.map((v) => v + 1.5) : values.map((v) => v * 0.6);
      return tf.tensor(scaled, w.shape);
    }));
    const inputs = model.inputs.map((input) => {
      const shape = input.shape.map((n) => n ?? 2), size = shape.reduce((a, b) => a * b, 1);
      const values = Array.from({ length: size }, next);
      if (name === "hidden") return tf.tensor(values.map((v, place) => (place % 8 > 3 ? 0 : v)), shape);
      const words = { words: 5, gaps: 2.5, categories: 3, flags: 2 }[name];
      return words ? tf.tensor(values.map((v) => Math.floor((v + 1) * words)), shape, "int32") : tf.tensor(values, shape);
    });
    const outputs = [model.predict(inputs.length === 1 ? inputs[0] : inputs)].flat();
    let artifacts;
    await model.save({ save: async (found) => { artifacts = found; return { modelArtifactsInfo: { dateSaved: new Date(0), modelTopologyType: "JSON" } }; } });
    records[name] = {
      document: { format: artifacts.format, generatedBy: artifacts.generatedBy, modelTopology: artifacts.modelTopology },
      specs: artifacts.weightSpecs.map(({ name, shape, dtype }) => ({ name, shape, dtype })),
      data: Buffer.from(artifacts.weightData).toString("base64"),
      inputs: inputs.map(plain), outputs: outputs.map(plain),
    };
  }
  fs.writeFileSync(process.argv[2], JSON.stringify(records));
})();
