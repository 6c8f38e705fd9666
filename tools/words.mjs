// Words of this project's former dialect, which tools/check-words.mjs rejects: readers know the words of vLLM, llama.cpp and
// gRPC.

/**
 * Former names, as the words of an identifier in lower case with blanks between them, and the names of today.
 *
 * @type {Readonly<Record<string, string>>}
 */
export const FORMER_NAMES = {
  'doors?': 'server, api',
  'turned|unturned|can turn': 'rotated, canRotate',
  'one row': 'decode, singleToken',
  'guess(?:es|ed|ing)?': 'draft token',
  'put away|is away': 'unloaded, idle',
  residency: 'ModelLifecycle, IdleUnloader',
  'tell (?:ready|stopping|slow)': 'notifyReady, notifyStopping, setBackpressure',
  'folded|fold heads': 'combined, combineHeads',
  pace: 'StepDeadline',
  'attended clock': 'StallTolerantClock',
  'is ill': 'isUnhealthy',
  'handovers?|adopt(?:s|ed)?|surrender|heirs?|heirs of|orphaned': 'migration, takeOver, failoverTargets, executorLost',
  'offenders?|offences?': 'AbuseTracker, violation',
  'piece bytes': 'MIN_FRAME_CHARGE',
  looked: 'PromptLookupDrafter',
  'late masks|make up': 'maskMisses, retryMissed',
  'rank meetings?': 'AllReduce, barrier',
  landings: 'receiveBuffers',
  'input form': 'ActivationEncoding',
  'sampling way|way of': 'SamplingMode',
  'columns site': 'column-tiled activations',
  'promised prefixes|is coming': 'InFlightPrefixes, isPending',
  urgency: 'byPriority',
  'write rounds|due writer|put off': 'FlushScheduler, FlushTarget, backOff',
  'whole answer': 'collectResponse',
  'waiting client|requester': 'CallContext',
  '(?:demanded|holds|held) calls': 'requiredToolCalls, forcedToolCalls',
  'pass over|not built': 'ignore, unsupported',
  'given (?:logprobs|ids|ranks)': 'chosenLogprobs',
  'says token': 'resendsLastToken',
  'asks prompt logprobs': 'wantsPromptLogprobs',
  'told options': 'redactedOptions',
  'comes again': 'isRecurring',
  'guess masks|executor generation|slots yielded': 'draftTokenMasks, executorEpoch, slotPreemptions',
};

/**
 * Identifiers of some files that have such words and mean something else, each with the reason.
 *
 * @type {Readonly<Record<string, Readonly<Record<string, string>>>>}
 */
export const HONEST_NAMES = {
  'kernels/forge/hopper/fragments.h': { PIECE_BYTES: 'bytes that a lane loads of a piece of a fragment' },
  'native/device_link.h': { pass_over: 'a transfer is skipped' },
  'native/device_link.cc': { pass_over: 'a transfer is skipped' },
  'src/gateway/chat/injection-guard.ts': { folded: 'Unicode case folding' },
};

/** Phrases that no text for users may have: help, errors, logs, metric help, README and guides. */
export const DIALECT =
  /\b(?:doors?|put away|guess(?:es|ed|ing)?|unturned|turned|nobody|somebody|whoever|whom|told|tells|hears?|heard|goes on|go on|going on|held against|held to|stands? by|not built|mend(?:s|ed)?|taken back|not known here|books|comes? again|is of|found computed|is no (?:integer|number|address|string|object|list|path|port))\b/i;

/**
 * Texts of a source that have such a phrase and must, each with the reason.
 *
 * @type {Readonly<Record<string, string>>}
 */
export const HONEST_TEXTS = {};

/** Words that a comment must not start with: each makes a clause of what should be a noun. */
export const VAGUE_START = /^(?:What|Whether|How|Of|Where|Who)\b/;

/** Words in a sentence at most. */
export const MOST_WORDS = 40;
