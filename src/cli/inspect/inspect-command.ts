import { RocmForgeError } from '../../shared/errors.js';
import { flagOf, type OptionValues } from '../../shared/option-table.js';
import type { INSPECT_OPTIONS } from '../command-options.js';
import { writeJson, writeText } from '../common/output.js';
import { hubNameFor, isModelReference } from '../hub/model-reference.js';

export type InspectOptions = OptionValues<typeof INSPECT_OPTIONS>;

/** `--fit` has an answer, and no GPU would load the model. */
const EXIT_FITS_NOWHERE = 1;

/** Options that only `--fit` reads; the type of the KV cache is always there. */
const OPTIONS_OF_FIT = [
  'context',
  'sequences',
  'memory',
  'deviceMemory',
  'stateSnapshots',
  'cpuExperts',
  'split',
  'gpus',
  'tensorSplit',
] as const;

/**
 * `rocmforge inspect`: writes what a file holds, or a hub's model by its headers alone.
 *
 * @throws RocmForgeError of the readers; `INVALID_OPTION` for an option of `--fit` without it
 */
export async function inspect(model: string, options: InspectOptions): Promise<void> {
  const meant = hubNameFor(model);
  if (meant !== undefined) {
    throw new RocmForgeError('MODEL_FILE_UNREADABLE', `there is no file ${model}; did you mean ${meant}?`);
  }
  const [report, text] = options.fit ? await fitOf(model, options) : await describe(model, options);
  if (options.json) writeJson(report, 2);
  else writeText(`${text()}\n`);
}

async function fitOf(model: string, options: InspectOptions): Promise<[unknown, () => string]> {
  const { fitHeaders, fitReport, formatFitReport } = await import('./fit.js');
  const report = isModelReference(model)
    ? await (await remote())(model, (headers) => fitHeaders(model, headers, options))
    : await fitReport(model, options);
  const { devices } = report;
  if (devices.length > 0 && devices.every(({ granted }) => granted === null)) process.exitCode = EXIT_FITS_NOWHERE;
  return [report, () => formatFitReport(report)];
}

async function describe(model: string, options: InspectOptions): Promise<[unknown, () => string]> {
  for (const name of OPTIONS_OF_FIT) {
    if (options[name] !== undefined) throw new RocmForgeError('INVALID_OPTION', `--${flagOf(name)} requires --fit`);
  }
  const { inspectHeaders, inspectModel, formatInspectReport } = await import('./inspect.js');
  const report = isModelReference(model)
    ? await (await remote())(model, (headers) => inspectHeaders(model, headers))
    : inspectModel(model);
  return [report, () => formatInspectReport(report)];
}

const remote = async () => (await import('../hub/remote-headers.js')).withRemoteHeaders;
