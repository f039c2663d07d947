// node run_models.js JOBS RESULTS: runs models of @tensorflow/tfjs, whose folder is in the variable TFJS, on the cpu backend.
// A job has a folder, "graph" or "layers", inputs by name, and the names of outputs.
const fs = require("fs"), path = require("path");
const tf = require(path.join(process.env.TFJS, "dist/tf.node.js"));

function handler(folder) {
  return { load: async () => {
    const document = JSON.parse(fs.readFileSync(path.join(folder, "model.json")));
    const weightSpecs = [], parts = [];
    for (const group of document.weightsManifest) {
      weightSpecs.push(...group.weights);
      for (const name of group.paths) parts.push(fs.readFileSync(path.join(folder, name)));
    }
    const all = Buffer.concat(parts);
    const weightData = all.buffer.slice(all.byteOffset, all.byteOffset + all.length);
    return { ...document, weightSpecs, weightData };
  } };
}

const number = (v) => (typeof v === "string" ? Number(v.replace("inf", "Infinity")) : v);

function tensor({ dtype, shape, data }) {
  if (dtype === "string") return tf.tensor(data, shape, dtype);
  const values = data.map(number);
  if (dtype !== "complex64") return tf.tensor(values, shape, dtype);
  return tf.complex(tf.tensor(values.filter((_, i) => i % 2 === 0), shape), tf.tensor(values.filter((_, i) => i % 2), shape));
}

function plain(t) {
  const values = Array.from(t.dataSync());
  const data = t.dtype === "bool" ? values.map(Boolean)
    : t.dtype === "string" || t.dtype === "int32" ? values
    : values.map((v) => (Number.isFinite(v) ? v : String(v).replace("Infinity", "inf")));
  return { dtype: t.dtype, shape: t.shape, data };
}

async function run({ folder, kind, inputs, outputs }) {
  const given = Object.fromEntries(Object.entries(inputs).map(([name, value]) => [name, tensor(value)]));
  if (kind === "layers") {
    const model = await tf.loadLayersModel(handler(folder));
    const xs = model.inputNames.map((name, place) => given[name] ?? Object.values(given)[place]);
    return [model.predict(xs.length === 1 ? xs[0] : xs)].flat().map(plain);
  }
  const model = await tf.loadGraphModel(handler(folder));
  const named = Object.keys(given).length ? given : {};
  return [await model.executeAsync(named, outputs)].flat().map(plain);
}

(async () => {
  console.warn = () => {};
  await tf.setBackend("cpu");
  const results = [];
  for (const job of JSON.parse(fs.readFileSync(process.argv[2]))) {
    try {
      results.push(await run(job));
    } catch (error) {
      results.push(String(error.stack || error).slice(0, 2000));
    }
  }
  fs.writeFileSync(process.argv[3], JSON.stringify(results));
})();
