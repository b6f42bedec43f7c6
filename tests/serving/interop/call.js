// Calls a gRPC method with bytes, by grpc-js. The options are told in callers.py.
'use strict';
const fs = require('fs');
const path = require('path');
const grpc = require(path.join(process.env.NODE_MODULES, '@grpc/grpc-js'));

const options = { request: [], metadata: [] };
for (const argument of process.argv.slice(2)) {
  const at = argument.indexOf('=');
  const key = argument.slice(0, at);
  const value = argument.slice(at + 1);
  if (Array.isArray(options[key])) options[key].push(value);
  else options[key] = value;
}
const number = (key) => Number(options[key] || 0);

const settings = {
  'grpc.max_receive_message_length': -1,
  'grpc.max_send_message_length': -1,
  'grpc.enable_retries': 0,
};
if (options.gzip) settings['grpc.default_compression_algorithm'] = 2;
if (options.keepalive) {
  settings['grpc.keepalive_time_ms'] = number('keepalive');
  settings['grpc.keepalive_permit_without_calls'] = 1;
}
const credentials = options.ca
  ? grpc.credentials.createSsl(fs.readFileSync(options.ca))
  : grpc.credentials.createInsecure();
const client = new grpc.Client(options.address, credentials, settings);
const bodies = options.request.map((file) => fs.readFileSync(file));
const metadata = new grpc.Metadata();
for (const pair of options.metadata) {
  const at = pair.indexOf(':');
  const key = pair.slice(0, at);
  const value = pair.slice(at + 1);
  metadata.add(key, key.endsWith('-bin') ? Buffer.from(value) : value);
}
const same = (bytes) => bytes;
const answers = bodies.map(() => []);
let message = '';

function keep(index, answer) {
  if (!answers[index].some((other) => other.equals(answer))) answers[index].push(answer);
}

function call(index) {
  const more = {};
  if (options.timeout) more.deadline = Date.now() + number('timeout');
  return new Promise((resolve) => {
    let running;
    const done = (error, answer) => {
      if (error) message = error.details;
      else if (answer) keep(index, answer);
      resolve(error ? error.code : 0);
    };
    if (options.stream) {
      let left = number('stream');
      running = client.makeServerStreamRequest(
        options.path, same, same, bodies[index], metadata, more);
      running.on('data', (answer) => {
        keep(index, answer);
        left -= 1;
        if (left === 0) running.cancel();
      });
      running.on('error', (error) => done(error));
      running.on('end', () => done(null));
    } else {
      running = client.makeUnaryRequest(
        options.path, same, same, bodies[index], metadata, more, done);
    }
    if (options.cancel) setTimeout(() => running.cancel(), number('cancel'));
  });
}

(async () => {
  const count = number('calls') || 1;
  let codes = [];
  if (options.pause) {
    for (let i = 0; i < count; i += 1) {
      codes.push(await call(i % bodies.length));
      await new Promise((resolve) => setTimeout(resolve, number('pause')));
    }
  } else {
    codes = await Promise.all([...Array(count).keys()].map((i) => call(i % bodies.length)));
  }
  client.close();
  answers.forEach((found, index) => found.forEach((answer, k) =>
    fs.writeFileSync(path.join(options.out, `${index}.${k}`), answer)));
  fs.writeFileSync(path.join(options.out, 'message'), message);
  console.log(`codes ${codes.join(' ')}`);
})();
