// Writes docs/api.md from the comments in proto/, docs/kernels.md from the contracts of the kernels, docs/protocols.md from the
// tables of other protocols' fields, docs/targets.md from what was executed, and the kernels' details to build/docs/contracts.md.
//
//   node tools/build-docs.mjs [--check]     --check fails when a file is not what would be written
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { contractsPage, kernelsPage } from './kernels-page.mjs';
import { protocolsPage } from './protocols-page.mjs';
import { targetsPage } from './targets-page.mjs';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const fromDist = (file) => import(pathToFileURL(path.join(root, 'dist', file)).href);

/** The descriptors of every .proto file, comments included. */
function descriptors() {
  const image = execFileSync(path.join(root, 'node_modules', '.bin', 'buf'), ['build', '-o', '-#format=json'], {
    cwd: root,
    encoding: 'utf8',
    maxBuffer: 1 << 26,
  });
  return JSON.parse(image).file;
}

/** Comments by path: `path` is the descriptor's own way to name an element, such as 4,0,2,1. */
function commentsOf(file) {
  const comments = new Map();
  for (const { path: place, leadingComments } of file.sourceCodeInfo?.location ?? []) {
    if (leadingComments) comments.set((place ?? []).join(), leadingComments.trim().replace(/\s*\n\s*/g, ' '));
  }
  return (...place) => comments.get(place.join()) ?? '';
}

const shortName = (name) => name.replace(/^\./, '').replace(/^(rocmforge\.v1|google\.protobuf)\./, '');

function fieldType(field, message) {
  const nested = (message.nestedType ?? []).find((type) => field.typeName?.endsWith(`.${message.name}.${type.name}`));
  if (nested?.options?.mapEntry) {
    const [key, value] = nested.field;
    return `map<${fieldType(key, nested)}, ${fieldType(value, nested)}>`;
  }
  const base = field.typeName ? shortName(field.typeName) : field.type.replace('TYPE_', '').toLowerCase();
  const repeated = field.label === 'LABEL_REPEATED' ? 'repeated ' : field.proto3Optional ? 'optional ' : '';
  return repeated + base;
}

function messageTable(message, comment, place) {
  const rows = (message.field ?? []).map((field, i) => {
    const oneof =
      field.oneofIndex !== undefined && !field.proto3Optional ? message.oneofDecl[field.oneofIndex] : undefined;
    const note = oneof ? ` (one of \`${oneof.name}\`)` : '';
    return `| ${field.number} | \`${field.name}\` | ${fieldType(field, message)} | ${comment(...place, 2, i)}${note} |`;
  });
  return [
    `### ${message.name}`,
    '',
    comment(...place),
    '',
    ...(rows.length > 0 ? ['| # | field | type | meaning |', '| --- | --- | --- | --- |', ...rows, ''] : []),
  ];
}

async function apiPage() {
  const { UNIMPLEMENTED_FIELDS } = await fromDist('gateway/request/unimplemented.js');
  const { ERRORS, RocmForgeError } = await fromDist('shared/errors.js');
  const { ERROR_HELP } = await fromDist('shared/error-help.js');
  const { statusOf } = await fromDist('gateway/api/http/errors.js');
  const { describeLimits, MAX_ANSWER_TEXT_BYTES, MAX_LOGPROBS_OF_MESSAGE } =
    await fromDist('gateway/request/limits.js');
  const { describeMethodBytes } = await fromDist('gateway/api/method-bytes.js');
  const { MOST_CALL_BYTES, MOST_QUESTION_BYTES } = await fromDist('gateway/api/grpc/reflection.js');
  const file = descriptors().find(({ name }) => name === 'rocmforge/v1/inference.proto');
  const comment = commentsOf(file);
  const lines = [
    '# The public API',
    '',
    'Written by `npm run docs` from the comments in `proto/rocmforge/v1/inference.proto`.',
    '',
    '## Not supported',
    '',
    'A request that uses one of these is refused with UNIMPLEMENTED and an `ErrorInfo` that names the field:',
    '',
    ...UNIMPLEMENTED_FIELDS.map(({ field, what }) => `- \`${field}\`${what === undefined ? '' : `: ${what}`}`),
    '',
    '## Limits',
    '',
    'What is more is refused with `INVALID_FIELD` (token ids: `PROMPT_TOO_LONG`) before any work. Characters are UTF-16',
    'units. What has no line of its own is bounded by its message.',
    '',
    '| field | at most | |',
    '| --- | --- | --- |',
    ...describeLimits().map(
      ({ field, counts, most }) => `| \`${field}\` | ${most} | ${counts === 'value' ? '' : counts} |`,
    ),
    '',
    `One message has at most ${MAX_LOGPROBS_OF_MESSAGE.toLocaleString('en')} log probabilities: tokens of the prompt × (1 +`,
    '`output.prompt_logprobs`), and for `Generate` `n` × `max_tokens` × (1 + `output.logprobs`).',
    '',
    `\`n\` × the bytes of a prompt that is echoed (\`output.echo\`), streamed or not, are at most ${MAX_ANSWER_TEXT_BYTES.toLocaleString('en')}: more is`,
    'refused with `INVALID_FIELD`. The texts of all completions of one `Generate` are at most as many: it ends with',
    '`MESSAGE_TOO_LARGE` when they become more, and is to be streamed instead.',
    '',
    'A larger request is refused with `MESSAGE_TOO_LARGE` when its first bytes arrive:',
    '',
    '| method | bytes |',
    '| --- | --- |',
    ...describeMethodBytes().map(({ method, most }) => `| \`${method}\` | ${most} |`),
    '',
    '## Health and reflection',
    '',
    '`grpc.health.v1.Health`: the service `""` and `rocmforge.v1.InferenceService` are SERVING while requests can run: ask for one',
    'of them to know whether to send requests (readiness). `liveness` is SERVING while the gateway answers, also while an executor',
    'loads or starts anew and while the gateway drains: ask for it to know whether to restart the gateway.',
    '',
    '`grpc.reflection.v1.ServerReflection` and `v1alpha`: tools that know no schema (`buf curl`, `grpcurl`, Postman) find the services',
    `here. One question has at most ${MOST_QUESTION_BYTES} bytes, all of one call ${MOST_CALL_BYTES / 1024} KiB; a call that has not ended its questions after the time`,
    'that requests have to arrive is ended.',
    '',
    '## Errors',
    '',
    'Every error carries `google.rpc.Status` in `grpc-status-details-bin`: an `ErrorInfo` (domain `rocmforge`, the reason',
    'below, metadata), a `BadRequest` where a field is wrong, a `RetryInfo` where trying again later helps.',
    '',
    'HTTP is the status of the HTTP API. Retryable: the same request may succeed later without a change.',
    '',
    '| reason | gRPC code | HTTP | retryable | meaning | what to do |',
    '| --- | --- | --- | --- | --- | --- |',
    ...Object.entries(ERRORS).map(([reason, { code, retryable }]) => {
      const { meaning, remedy } = ERROR_HELP[reason];
      const status = statusOf(new RocmForgeError(reason, meaning));
      return `| ${reason} | ${code} | ${status} | ${retryable ? 'yes' : 'no'} | ${meaning} | ${remedy} |`;
    }),
    '',
  ];
  (file.service ?? []).forEach((service, s) => {
    lines.push(
      `## ${file.package}.${service.name}`,
      '',
      comment(6, s),
      '',
      '| method | request | response | |',
      '| --- | --- | --- | --- |',
    );
    service.method.forEach((method, m) => {
      const stream = method.serverStreaming ? 'stream ' : '';
      const request = shortName(method.inputType);
      const response = stream + shortName(method.outputType);
      lines.push(`| \`${method.name}\` | ${request} | ${response} | ${comment(6, s, 2, m)} |`);
    });
    lines.push('');
  });
  lines.push('## Messages', '');
  lines.push(...file.messageType.flatMap((message, i) => messageTable(message, comment, [4, i])));
  lines.push('## Enums', '');
  (file.enumType ?? []).forEach((type, i) => {
    lines.push(`### ${type.name}`, '', comment(5, i), '', '| # | value | meaning |', '| --- | --- | --- |');
    lines.push(
      ...type.value.map((value, v) => `| ${value.number ?? 0} | \`${value.name}\` | ${comment(5, i, 2, v)} |`),
    );
    lines.push('');
  });
  return lines.join('\n');
}

const check = process.argv.includes('--check');
const { allContracts, operations } = await fromDist('executor/kernels/index.js');
const { SEED_NAMES } = await fromDist('executor/kernels/seed-names.js');
const { INDEX_RULE } = await fromDist('executor/device/contract.js');
const { PROTOCOLS } = await fromDist('gateway/api/protocols/index.js');
const { REFUSED_CONTROL_METHODS: control } = await fromDist('gateway/api/grpc/vllm-service.js');
const { REFUSED_ENGINE_METHODS: engine } = await fromDist('gateway/api/grpc/engine-service.js');
const pages = [
  ['docs/api.md', await apiPage()],
  ['docs/kernels.md', kernelsPage(operations, SEED_NAMES)],
  ['docs/protocols.md', protocolsPage(PROTOCOLS, { control, engine })],
  [
    'docs/targets.md',
    targetsPage(JSON.parse(readFileSync(path.join(root, 'test', 'emulator', 'executed.json'), 'utf8'))),
  ],
];
mkdirSync(path.join(root, 'build', 'docs'), { recursive: true });
writeFileSync(path.join(root, 'build', 'docs', 'contracts.md'), contractsPage(allContracts, INDEX_RULE));
let stale = false;
for (const [name, text] of pages) {
  const file = path.join(root, name);
  if (existsSync(file) && readFileSync(file, 'utf8') === text) continue;
  stale = true;
  if (check) console.error(`${name} is not what the sources say; run "npm run docs"`);
  else writeFileSync(file, text);
}
process.exit(check && stale ? 1 : 0);
