import path from 'node:path';
import type { Device } from '../../executor/device/device.js';
import { type LoadedModel, loadModel } from '../../executor/load/loaded-model.js';
import { openDevice } from '../../executor/load/open-device.js';
import { RocmForgeError } from '../../shared/errors.js';
import type { OptionValues } from '../../shared/option-table.js';
import type { VERIFY_OPTIONS } from '../command-options.js';
import { writeJson, writeText } from '../common/output.js';
import { DEMO_MODEL, DEMO_PARITY } from '../common/package-files.js';
import { besideHost } from './beside-host.js';
import { survivesKill } from './faults.js';
import { INVARIANCE_PROMPT, logitsHashes, promptOf } from './invariance.js';
import { speed } from './speed.js';
import { StepDriver } from './step-driver.js';
import { ACCEPTED, greedy, readParityCases, teacherForced } from './teacher-forced.js';
import { conclusion, type Verdict } from './verdict.js';

export type VerifyCommandOptions = OptionValues<typeof VERIFY_OPTIONS>;

const INVARIANCE_CHUNKS = [1, 16, 17, 500];
const INVARIANCE_OTHERS = 16;
/** A captured graph of one more class of contexts, or what a garbage collector leaves for later. */
const GROWTH_BYTES = 32 << 20;

/**
 * `rocmforge verify`: runs models on a device and tells what of it is right. Greedy tokens against llama.cpp's, log
 * probabilities when fed its tokens, one hash of a sequence's logits whatever else is in the step, a stream whose executor is
 * killed, and how fast it is beside a kernel that only reads.
 *
 * @throws RocmForgeError `DEVICE_UNAVAILABLE` or a model's own refusal
 */
export async function verify(options: VerifyCommandOptions): Promise<void> {
  const models = options.model ?? [DEMO_MODEL];
  const parities = options.model === undefined ? [DEMO_PARITY] : options.parity;
  if (parities.length > models.length || (options.model === undefined && options.parity.length > 0)) {
    throw new RocmForgeError('INVALID_OPTION', 'there are more --parity files than --model files');
  }
  const verdicts: Verdict[] = [];
  for (const [i, model] of models.entries()) {
    const parity = parities[i];
    verdicts.push(...(await verifyModel(options, model, parity)));
  }
  const { description } = openDevice(deviceOptions(options));
  const verified = verdicts.every(({ passed }) => passed);
  if (options.json) {
    writeJson({ device: description, verified, verdicts }, 2);
  } else {
    for (const { model, check, measured, passed } of verdicts) {
      writeText(`${passed ? 'ok    ' : 'FAILED'}  ${model.padEnd(28)} ${check.padEnd(38)} ${measured}\n`);
    }
    writeText(`${conclusion(verdicts, description)}\n`);
  }
  if (!verified) process.exitCode = 1;
}

const deviceOptions = ({ device, gpu, threads, kernels }: VerifyCommandOptions) => ({
  kind: device,
  gpu,
  threads,
  kernels,
});

async function verifyModel(options: VerifyCommandOptions, file: string, parity?: string): Promise<Verdict[]> {
  const model = path.basename(file);
  const verdicts: Verdict[] = [];
  const { kvCacheType, attention } = options;
  const device = { ...deviceOptions(options), kvCacheType, attention };
  // First, while this process holds no memory of the device: the executor of the stream needs its own.
  verdicts.push(await survivesKill(file, model, options));
  if (parity !== undefined) {
    const cases = readParityCases(parity);
    const { mean, max, steps, sameToken, ties } = await teacherForced(file, cases, device);
    const isNear = mean <= ACCEPTED.mean && max <= ACCEPTED.max;
    verdicts.push({
      model,
      check: 'log probabilities, fed its tokens',
      measured: `mean |difference| ${mean.toExponential(2)}, largest ${max.toExponential(2)}; likeliest token equal in ${sameToken} of ${steps}`,
      passed: isNear && sameToken + ties === steps,
    });
    const { tokens, same } = await greedy(file, cases, device);
    // If ties on the reference's own path turn out differently, the texts part sooner or later.
    const isAsked = ties === 0;
    const measured = `${same} of ${tokens} equal${isAsked ? '' : ` (not asked: ${ties} ties)`}`;
    verdicts.push({ model, check: 'greedy tokens', measured, passed: same === tokens || !isAsked });
  }
  verdicts.push(await invariance(openDevice(deviceOptions(options)), file, model, options));
  verdicts.push(await speed(file, model, options));
  if (options.besideHost) {
    const { relative, bound } = await besideHost(openDevice(deviceOptions(options)), file, options);
    const measured = `|difference| / |logits| ${relative.toExponential(2)}, bound ${bound.toExponential(2)}`;
    verdicts.push({ model, check: 'logits compared with the host’s', measured, passed: relative <= bound });
  }
  if (options.tokens > 0) verdicts.push(await growth(openDevice(deviceOptions(options)), file, model, options));
  return verdicts;
}

/** Memory of the device and of this process before and after a long generation. */
async function growth(
  device: Device,
  path: string,
  model: string,
  { kvCacheType, attention, tokens }: VerifyCommandOptions,
): Promise<Verdict> {
  const limits = { maxContext: tokens + 32, maxSequences: 1, maxStepTokens: 64, kvMemoryBytes: 0, stateSnapshots: 0 };
  const loaded = await loadModel(device, { path, kvCacheType, attention, fingerprint: '', ...limits }, () => undefined);
  const driver = new StepDriver(device, loaded, 1n);
  const prompt = promptOf(1, 16, loaded.forward.model.vocabularySize);
  await driver.sample([[0, 0, prompt.length, true]], [[0, prompt]]);
  const decode = async (from: number, to: number) => {
    for (let i = from; i < to; i++) await driver.sample([[0, prompt.length + i, 1, true]]);
  };
  // Caches of the driver and of JavaScript fill in the first pass; after that nothing may grow.
  const inUse = () => ({ device: device.native.memory().freeBytes, process: process.memoryUsage().rss });
  await decode(0, Math.floor(tokens / 2));
  const before = inUse();
  await decode(Math.floor(tokens / 2), tokens);
  const after = inUse();
  const mega = (bytes: number) => `${(bytes / 1e6).toFixed(1)} MB`;
  const [onDevice, here] = [before.device - after.device, after.process - before.process];
  return {
    model,
    check: `memory over ${tokens} tokens`,
    measured: `second half: device ${mega(onDevice)}, process ${mega(here)}`,
    passed: onDevice <= GROWTH_BYTES && here <= GROWTH_BYTES,
  };
}

/** One hash of a sequence's logits: alone, in chunks, and among others. */
async function invariance(
  device: Device,
  file: string,
  model: string,
  { kvCacheType, attention }: VerifyCommandOptions,
): Promise<Verdict> {
  const limits = {
    maxContext: 512,
    maxSequences: INVARIANCE_OTHERS + 1,
    maxStepTokens: 1024,
    kvMemoryBytes: 0,
    stateSnapshots: 0,
  };
  const loaded: LoadedModel = await loadModel(
    device,
    { path: file, kvCacheType, attention, fingerprint: '', ...limits },
    () => undefined,
  );
  const hashes = [await logitsHashes(device, loaded, INVARIANCE_PROMPT)];
  for (const chunk of INVARIANCE_CHUNKS) hashes.push(await logitsHashes(device, loaded, chunk));
  hashes.push(await logitsHashes(device, loaded, INVARIANCE_PROMPT, INVARIANCE_OTHERS));
  hashes.push(await logitsHashes(device, loaded, 100, INVARIANCE_OTHERS));
  // The next check loads the model again.
  loaded.release();
  const distinct = new Set(hashes.map((list) => list.join()));
  return {
    model,
    check: 'one hash of logits, 7 ways to batch',
    measured: distinct.size === 1 ? `${[...distinct][0]?.slice(0, 16)}` : `${distinct.size} different hashes`,
    passed: distinct.size === 1,
  };
}
