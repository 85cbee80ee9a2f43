"use strict";
/* Runs models in onnxruntime-node or -web: node consumer_node.js PACKAGE FOLDER...; each folder holds model.onnx and inputs.json,
   and gets outputs.json, or failed.txt with the message. Prints the package's version. */
const fs = require("fs");
const path = require("path");
const [name, ...folders] = process.argv.slice(2);
const installed = path.join(process.env.CONSUMERS_JS, "node_modules", name);
const ort = require(installed);

const run = async (folder) => {
  const session = await ort.InferenceSession.create(path.join(folder, "model.onnx"));
  const feed = {};
  for (const [key, { shape, values }] of Object.entries(JSON.parse(fs.readFileSync(path.join(folder, "inputs.json"), "utf8"))))
    feed[key] = new ort.Tensor("float32", Float32Array.from(values), shape);
  const found = {};
  for (const [key, tensor] of Object.entries(await session.run(feed))) found[key] = Array.from(tensor.data);
  fs.writeFileSync(path.join(folder, "outputs.json"), JSON.stringify(found));
};

(async () => {
  if (name === "onnxruntime-web") ort.env.wasm.numThreads = 1;
  for (const folder of folders)
    await run(folder).catch((error) => fs.writeFileSync(path.join(folder, "failed.txt"), String(error.message).slice(0, 120)));
  console.log(JSON.parse(fs.readFileSync(path.join(installed, "package.json"), "utf8")).version);
})();
