// Text of docs/protocols.md: what of other projects' protocols is served, from the tables that the gateway goes by.

/** @typedef {typeof import('../src/gateway/api/protocols/index.js').PROTOCOLS} Protocols */

/** A row for each field of a request. */
const fieldRows = (fields) =>
  fields.map(({ field, ours, note, refusedIf }) => {
    const becomes = ours === undefined ? (refusedIf === undefined ? '' : '**refused**') : `\`${ours}\``;
    return `| \`${field}\` | ${becomes}${ours !== undefined && refusedIf !== undefined ? ', or **refused**' : ''} | ${note ?? ''} |`;
  });

const fieldTable = (fields) => ['| field | of ours | |', '| --- | --- | --- |', ...fieldRows(fields), ''];
const list = (names) => names.map((name) => `\`${name}\``).join(', ');

/** @param {string} name @param {Protocols} protocols */
function fieldsOf(name, protocols) {
  const protocol = protocols.get(name);
  if (protocol === undefined) throw new Error(`src/gateway/api/protocols has no ${name}`);
  return protocol.fields;
}

/**
 * @param {Protocols} protocols
 * @param {{ control: readonly string[], engine: readonly string[] }} refusedMethods
 * @returns {string}
 */
export function protocolsPage(protocols, refusedMethods) {
  return [
    '# Other projects’ protocols',
    '',
    'Written by `npm run docs` from the tables in `src/gateway/api/protocols/`.',
    '',
    'Beside its own API the gateway’s port serves the gRPC services by which routers and sidecars speak to vLLM. Each call is',
    'turned into a `GenerateStreamRequest` and its answer’s messages back, so limits, sampling, errors and what happens when an',
    'executor dies are those of [our own service](api.md). The definitions in `protocols/` are wire-compatible with the',
    'originals, which their first comment names by commit, in our own words; generate clients from the originals.',
    '',
    'All of a request is understood, or it is refused with UNIMPLEMENTED and an `ErrorInfo` that names the field: by its name, or by',
    'its number where the definition does not have it. A wrong value is told by the name that the field has there. A method that is',
    'not built is refused by its name. A request has as many bytes as `GenerateStream` of ours may have; one without a prompt 2 KiB.',
    '',
    '`Abort` ends requests of the caller’s own that came by one of these services, whichever: who calls is who counts in the queue (the',
    'address; over a socket file the connection). They end with what they have, and ids that nobody runs are no error. No proto says',
    'that an id may not be in use already, so several requests may have one, and `Abort` ends them all.',
    '',
    'With each generation’s end, of our own service too, comes the load as a trailer `endpoint-load-metrics-bin`, an ORCA load report with',
    '`kv_cache_usage_perc` and `num_requests_waiting` among its named metrics. Nobody need ask for it: load balancers that go by',
    'trailers do not. Kubernetes’ endpoint pickers read the same from `/metrics`, and `rocmforge_cache_config_info` has the block size.',
    '',
    'Of [several models](scale.md#several-models) `vllm.Inference` takes the one that `model` names. The other services name none: theirs is the first.',
    '',
    '## vllm.Inference',
    '',
    '`Generate` and `GenerateStream`. A stream’s first message has `prompt_info` alone; the last one of each sequence `finish_info`. A',
    'token’s rank counts the tokens that are as likely or likelier, itself among them. Candidates are refused. Of the call’s',
    'metadata `x-data-parallel-rank` is read: there is rank 0 alone.',
    '',
    ...fieldTable(fieldsOf('vllm.Inference', protocols)),
    '## vllm.Control',
    '',
    `\`GetServerInfo\`, \`GetModelInfo\` and \`Abort\`. Refused: ${list(refusedMethods.control)}.`,
    '',
    '## vllm.grpc.engine.VllmEngine',
    '',
    '`Generate`, `HealthCheck`, `Abort`, `GetModelInfo`, `GetServerInfo` and `GetLoads`, of one rank.',
    `Refused: ${list(refusedMethods.engine)}.`,
    '',
    'With `stream` each chunk has the tokens since the last one, as SMG’s router counts them',
    '(`model_gateway/src/routers/grpc/common/response_formatting.rs`), and `cached_tokens` is in the complete alone. A complete has',
    'all ids, and log probabilities where no chunks have had them. A router needs the tokenizer from elsewhere: `model_path` is',
    'the name by which requests call the model, and `tokenizer_path` is empty.',
    '',
    ...fieldTable(fieldsOf('vllm.grpc.engine.VllmEngine', protocols)),
  ].join('\n');
}
