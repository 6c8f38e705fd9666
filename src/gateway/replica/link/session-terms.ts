import { RocmForgeError } from '../../../shared/errors.js';
import type {
  GetInfoResponse,
  LoadedModel,
  LoadModelRequest,
} from '../../../shared/generated/rocmforge/executor/v1/executor.js';
import { mostSeenBlocks } from '../../../shared/kv-window.js';
import { packageVersion } from '../../../shared/package.js';
import type { StallTolerantClock } from '../../../shared/stall-tolerant-clock.js';
import type { StepDeadline } from '../../../shared/step-deadline.js';
import { MOST_CHOSEN_SEQUENCES, MOST_STATE_SNAPSHOTS, MOST_STEP_TOKENS } from '../../../shared/step-limits.js';
import { BLOCK_TOKENS, blocksFor } from '../scheduler/block-manager.js';

/** Terms of a session. */
export interface SessionTerms {
  readonly load: LoadModelRequest;
  /** Token ids that the gateway can turn into text. */
  readonly vocabularySize: number;
  /** Durations of steps so far; they outlive the session, so that a new executor is measured against the last one. */
  readonly deadline: StepDeadline;
  readonly clock: StallTolerantClock;
  /** Device of the first executor: streams do not continue with the numerics of another one. */
  readonly device: Pick<GetInfoResponse, 'platform' | 'target'> | undefined;
  /** Its numerics fingerprint: {@link LoadedModel.arithmetic}. */
  readonly numerics: string | undefined;
}

/**
 * Checks that an executor belongs to this release and has a device with the same numerics as the one before.
 *
 * @throws RocmForgeError `EXECUTOR_PROTOCOL`, `DEVICE_UNAVAILABLE`
 */
export function checkInfo({ version, platform, target }: GetInfoResponse, { device }: SessionTerms): void {
  if (version !== packageVersion) {
    throw wrong(`has version "${version}", this gateway ${packageVersion}: both must have the same version`);
  }
  if (device === undefined || (device.platform === platform && device.target === target)) return;
  throw new RocmForgeError(
    'DEVICE_UNAVAILABLE',
    `the executor came back on ${platform} ${target} instead of ${device.platform} ${device.target}, which has other numerics`,
  );
}

/**
 * Checks that a loaded model is the requested one, with the same numerics, within the limits of the gateway's tables.
 *
 * @throws RocmForgeError `EXECUTOR_PROTOCOL`, `DEVICE_UNAVAILABLE`
 */
export function checkModel(
  model: LoadedModel,
  { load: asked, vocabularySize, numerics = model.arithmetic }: SessionTerms,
): void {
  const { epoch, fingerprint, maxContext, maxSequences, maxStepTokens, kvBlocks, kvBlockTokens } = model;
  const { window, windowBlocks, maskIds, recurrent, stateSnapshots } = model;
  const mostBlocks = maxSequences * blocksFor(maxContext);
  const mostSnapshots = recurrent ? (asked.stateSnapshots ?? MOST_STATE_SNAPSHOTS) : 0;
  const claims: readonly [what: string, is: unknown, holds: boolean][] = [
    ['epoch', epoch, epoch === asked.epoch],
    ['fingerprint', fingerprint, fingerprint === asked.fingerprint],
    ['vocabulary', model.vocabularySize, model.vocabularySize >= vocabularySize],
    ['context', maxContext, maxContext === asked.maxContext],
    ['slots', maxSequences, maxSequences >= 1 && maxSequences <= (asked.maxSequences || MOST_CHOSEN_SEQUENCES)],
    [
      'rows a step',
      maxStepTokens,
      maxStepTokens >= maxSequences && maxStepTokens <= (asked.maxStepTokens || MOST_STEP_TOKENS),
    ],
    ['tokens a KV block', kvBlockTokens, kvBlockTokens === BLOCK_TOKENS],
    ['snapshots of states', stateSnapshots, stateSnapshots <= mostSnapshots],
    ['prediction block', model.predicts, asked.predicts || !model.predicts],
    ['draft tokens', model.draftTokens, model.draftTokens <= asked.draftTokens],
    // A step names at most one for each slot, and three may be under way.
    ['masks', maskIds, maskIds >= 3 * maxSequences],
    // More than all sequences could fill would be tables that nothing bounds.
    ['KV blocks', kvBlocks, kvBlocks >= 2 && kvBlocks <= 1 + mostBlocks],
    ['window', window, window < maxContext],
    ['windowed KV blocks', windowBlocks, windowBlocks <= (window === 0 ? 0 : 1 + mostBlocks)],
    [
      'room for a window',
      windowBlocks,
      window === 0 ||
        windowBlocks > Math.min(blocksFor(maxContext), mostSeenBlocks(maxStepTokens, window, BLOCK_TOKENS)),
    ],
  ];
  for (const [what, is, holds] of claims)
    if (!holds) throw wrong(`loaded a model with other ${what} than asked: ${is}`);
  if (model.arithmetic === numerics) return;
  throw new RocmForgeError(
    'DEVICE_UNAVAILABLE',
    `the executor came back with other numerics: "${model.arithmetic}" instead of "${numerics}"`,
  );
}

function wrong(what: string): RocmForgeError {
  return new RocmForgeError('EXECUTOR_PROTOCOL', `the executor ${what}`);
}
