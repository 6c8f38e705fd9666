// A client of ROCmForge in Node.js, with the client that the package brings.
//
//   npm install ./rocmforge-*.tgz     # written by npm pack in a checkout
//   node client.mjs 127.0.0.1:50051 [PROMPT]
//
// Streams a generation, cancels one, lets one run into its deadline, and reads the details of an error.
import { FinishReason, RocmForgeClient } from 'rocmforge/client';

const [address, prompt = 'Once upon a time'] = process.argv.slice(2);
if (address === undefined) {
  console.error('usage: client.mjs ADDRESS [PROMPT]');
  process.exit(2);
}
// Gateways with --token-file or --jwks-file need a token.
const client = new RocmForgeClient(address, { token: process.env.ROCMFORGE_TOKEN });
const input = { $case: 'text', value: { text: prompt } };
const long = { input, stop: { maxTokens: 400, ignoreEos: true } };

for await (const event of client.generateStream({ input, stop: { maxTokens: 60 }, sampling: { temperature: 0 } })) {
  if (event.$case === 'chunk') process.stdout.write(event.value.text);
  else console.log(`\n${FinishReason[event.value.finishReason]}: ${event.value.usage.completionTokens} tokens`);
}

const controller = new AbortController();
let chunks = 0;
try {
  for await (const event of client.generateStream(long, { signal: controller.signal })) {
    if (event.$case === 'chunk') chunks += 1;
    if (chunks === 3) controller.abort();
  }
} catch (error) {
  console.log(`cancelled after 3 chunks: ${error.code}`);
}

await client.generate(long, { deadlineMs: 20 }).catch(({ code }) => console.log(`with a deadline of 20 ms: ${code}`));

await client.generate({ input, sampling: { topP: 2 } }).catch(({ code, reason, field, message }) => {
  console.log(`with top_p 2: ${code} ${reason}: ${message} (${field})`);
});

client.close();
