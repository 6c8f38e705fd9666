// An executor that remembers the steps it is sent, and can run them once more without the gateway. For gateway-share.mjs.
//
//   node bench/gpu/recording-executor.mjs unix:FILE DEVICE
//
// Each line that it reads is a number of repeats: it answers with a line of JSON about the steps since the line before, and
// about running them again, two under way, by themselves.
import { createInterface } from 'node:readline';
import { runExecutor } from '../../dist/executor/main.js';
import { StepRunner } from '../../dist/executor/steps/step-runner.js';

const [listen, kind] = process.argv.slice(2);
const UNDER_WAY = 2;

/** @type {{ step: object, began: number, ended: number }[]} */
let recorded = [];
let runner;
const submit = StepRunner.prototype.submit;
StepRunner.prototype.submit = function (step) {
  runner = this;
  const entry = { step, began: performance.now(), ended: 0 };
  recorded.push(entry);
  const answer = submit.call(this, step);
  answer.then(
    () => {
      entry.ended = performance.now();
    },
    () => undefined,
  );
  return answer;
};

await runExecutor({
  listen,
  device: { kind },
  dieWithParent: false,
  stepTimeoutMs: 20_000,
  leaseMs: 10_000,
  stepDelayMs: 0,
});

/** The steps without closes of slots that were open before. */
function selfContained(steps) {
  const open = new Set();
  return steps.map(({ step }) => {
    const closes = step.closes.filter((slot) => open.delete(slot));
    for (const { slot } of step.opens) open.add(slot);
    return { ...step, closes };
  });
}

/** @returns milliseconds that the steps take when the next is always there */
async function replay(steps) {
  const { device, model, epoch } = runner;
  const alone = new StepRunner(device, model, epoch);
  const pending = [];
  const began = performance.now();
  for (const step of steps) {
    pending.push(submit.call(alone, step));
    if (pending.length === UNDER_WAY) await pending.shift();
  }
  await Promise.all(pending);
  return performance.now() - began;
}

for await (const line of createInterface({ input: process.stdin })) {
  const steps = recorded;
  recorded = [];
  const tokens = steps.reduce((sum, { step }) => sum + step.slices.filter(({ sample }) => sample).length, 0);
  const served = Math.max(...steps.map(({ ended }) => ended)) - steps[0].began;
  const alone = [];
  for (let i = 0; i < Number(line); i++) alone.push(await replay(selfContained(steps)));
  console.log(JSON.stringify({ steps: steps.length, tokens, servedMs: served, aloneMs: alone }));
}
process.exit(0);
