// The texts of docs/kernels.md, a row an operation and what the seed documents call it, and of build/docs/contracts.md: every
// kernel with its contract.

const DISTINCT = /f32|bf16|f16|\d+/g;

/** What varies among kernels that differ in types and numbers alone: `f32/f16`, `8/16/32`. */
function merged(texts) {
  const values = texts.map((text) => text.match(DISTINCT) ?? []);
  let at = -1;
  return texts[0].replace(DISTINCT, () => {
    at += 1;
    return [...new Set(values.map((list) => list[at]))].join('/');
  });
}

const code = (name) => `\`${name}\``;

function argumentRow(argument) {
  if (argument.kind === 'scalar') return `| \`${argument.name}\` | ${argument.dtype} | scalar | in | |`;
  const { name, dtype, shape, access, align, stride } = argument;
  const notes = [align && `at ${align} bytes`, stride && `rows ${stride} apart`].filter(Boolean).join(', ');
  return `| \`${name}\` | ${dtype} | [${shape.join(', ')}] | ${access} | ${notes} |`;
}

function gridText(grid) {
  const per = { waves: 'waves of a block', block: 'threads of a block' };
  return grid.map(({ of, per: by }) => (by === undefined ? of : `⌈${of} / ${per[by] ?? by}⌉`)).join(' × ');
}

/** A kernel without its name. */
function description(contract) {
  const { summary, arguments: taken, grid, multiples = [], inPlace = [], offsets32 = [], order, tolerance } = contract;
  const facts = [
    `grid ${gridText(grid)}`,
    ...multiples.map(([size, by]) => `${size} a multiple of ${by}`),
    ...inPlace.map((pair) => `${pair.join(' and ')} may be one buffer`),
    ...offsets32.map((offset) => `${offset} below 2³¹`),
    ...(order ? [`sums: ${order}`] : []),
    `tolerance ${tolerance.text}`,
  ];
  return [
    summary,
    '',
    '| argument | type | shape | | |',
    '| --- | --- | --- | --- | --- |',
    ...taken.map(argumentRow),
    '',
    ...facts.map((fact) => `- ${fact}`),
    '',
  ].join('\n');
}

function sourceSection(source, contracts) {
  const groups = groupBy(contracts, (contract) => description(contract).replace(DISTINCT, '#'));
  const lines = [`## ${source}`, ''];
  for (const group of groups.values()) {
    lines.push(`${group.map(({ name }) => code(name)).join(', ')}: ${merged(group.map(description))}`);
  }
  return lines;
}

function groupBy(items, keyOf) {
  const groups = new Map();
  for (const item of items) groups.set(keyOf(item), [...(groups.get(keyOf(item)) ?? []), item]);
  return groups;
}

/** Names of kernels, those that differ in types and numbers alone together. */
function names(contracts) {
  const groups = groupBy(contracts, ({ name }) => name.replace(DISTINCT, '#'));
  return [...groups.values()].map((group) => code(merged(group.map(({ name }) => name)))).join(', ');
}

function operationRow(operation, contracts) {
  const twins = contracts.filter(({ source }) => source.startsWith('twins/'));
  const launched = contracts.filter((contract) => !twins.includes(contract));
  const on = (device) => launched.filter((contract) => contract.on === device);
  const cells = [operation, contracts[0].summary, ...[on(undefined), on('host'), on('gpu'), twins].map(names)];
  return `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
}

/** @returns docs/kernels.md, ending with a line break */
export function kernelsPage(operations, seedNames) {
  const contracts = Object.values(operations).flat();
  const twins = contracts.filter(({ source }) => source.startsWith('twins/'));
  const lines = [
    '# The kernels',
    '',
    `Written by \`npm run docs\` from the contracts in \`src/executor/kernels/\`, a file an operation: ${contracts.length} kernels, of which`,
    `${contracts.length - twins.length} are launched by some plan. Those that differ in types and numbers alone stand together: \`f32/f16\`, \`8/16/32\`. Nothing`,
    'launches twins, in `kernels/twins/`: tests hold others against them, and no package has them. Arguments, grids, orders of',
    'sums and tolerances are in `build/docs/contracts.md`, which `npm run docs` writes too.',
    '',
    '| operation | its first kernel computes | on all devices | on the host | on GPUs | twins |',
    '| --- | --- | --- | --- | --- | --- |',
    ...Object.entries(operations).map(([operation, list]) => operationRow(operation, list)),
    '',
    '## Names in the seed documents',
    '',
    '| there | here | why |',
    '| --- | --- | --- |',
    ...seedNames.map(({ seed, kernels, why = '' }) => `| ${seed} | ${kernels.map(code).join(', ')} | ${why} |`),
  ];
  return `${lines.join('\n')}\n`;
}

/** @returns build/docs/contracts.md, ending with a line break */
export function contractsPage(contracts, indexRule) {
  const sources = [...groupBy(contracts, ({ source }) => source)].sort(([a], [b]) => (a < b ? -1 : 1));
  const lines = [
    '# Contracts',
    '',
    `Written by \`npm run docs\` from the contracts in \`src/executor/kernels/\`: ${contracts.length} kernels of ${sources.length} sources in`,
    '`kernels/`. Kernels that differ in types and numbers alone stand together: `f32/f16`, `8/16/32`.',
    '',
    '## What holds for all',
    '',
    '- A block has 256 threads on GPUs (8 waves of 32 lanes, 4 of 64) and 1 on the host.',
    '- Buffers are row-major; `out` is written whole, `inout` read or written in part. An address is a multiple of the',
    '  element’s size, or of what stands beside it.',
    '- A buffer that is written overlaps no other argument, save where both may be one buffer, element on element.',
    `- ${indexRule}`,
    '- Sums depend in their order on a row’s own length or context alone, never on what else is computed.',
    '- A recorded launch that breaks one of these is refused before anything runs. `ROCMFORGE_LOG_LAUNCHES=1` writes each',
    '  launch to stderr before it runs, and waits for each: the last line names the kernel that failed.',
    '- The tolerance is the largest |difference| from a float64 reference that tests accept.',
    '',
    ...sources.flatMap(([source, list]) => sourceSection(source, list)),
  ];
  return `${lines.join('\n').trimEnd()}\n`;
}
