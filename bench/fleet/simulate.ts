/**
 * A fleet on a simulated clock: the real scheduler and the real rule of placement, steps that take what one card was measured
 * to take alone. First what it says of runs that were measured, then of fleets that were not.
 *
 *     npm run build:ts && npx tsc -p tsconfig.json --noEmit false --outDir build/bench --rootDir . && cp package.json build/bench/
 *     node build/bench/bench/fleet/simulate.js
 *
 * Ends with code 1 when a rate, or the last stream's pause, is more than 20 % off what was measured.
 */
import { Random } from '../../test/support/random.js';
import { CARDS, type Card } from './cards.js';
import { Fleet, type Request } from './fleet.js';

/** From SIGKILL to the end that the gateway hears of: 53 to 121 ms for a process that holds an H200. */
const NOTICED_MS = 80;
const MOST_ERROR = 0.2;

const random = new Random(1);
const between = (from: number, to: number): number => from + random.below(to - from + 1);
const percentile = (numbers: readonly number[], share: number): number =>
  [...numbers].sort((a, b) => a - b)[Math.max(0, Math.ceil(share * numbers.length) - 1)] ?? Number.NaN;
const requestOf = (promptTokens: number, tokens: number): Request => ({
  ...{ promptTokens, tokens, arrivedAt: 0, tokenAt: [] },
});
const mixed = (): Request => requestOf(between(128, 512), 128);
const firstTokens = (requests: readonly Request[]): number[] =>
  requests.map(({ arrivedAt, tokenAt }) => (tokenAt[0] as number) - arrivedAt);

let isOff = false;
/** @param isHeld whether it must be within {@link MOST_ERROR} */
function compared(what: string, unit: string, simulated: number, measured: number, isHeld = true): void {
  const error = simulated / measured - 1;
  if (isHeld && Math.abs(error) > MOST_ERROR) isOff = true;
  const told = `${error < 0 ? '−' : '+'}${Math.abs(100 * error).toFixed(0)} %`;
  console.log(`| ${what} | ${simulated.toFixed(0)} ${unit} | ${measured.toFixed(0)} ${unit} | ${told} |`);
}

/** Clients that send one request after the other. */
function closedLoop(card: Card, replicas: number, clients: number, perClient: number, shape: () => Request) {
  const fleet = new Fleet(card, replicas, Math.ceil(clients / replicas));
  const all: Request[] = [];
  const next = (left: number): void => {
    if (left === 0) return;
    const request = { ...shape(), onEnd: () => next(left - 1) };
    all.push(request);
    fleet.submit(request);
  };
  for (let client = 0; client < clients; client++) next(perClient);
  fleet.run();
  const tokens = all.reduce((sum, { tokenAt }) => sum + tokenAt.length, 0);
  return { rate: (1000 * tokens) / fleet.nowMs, firstMs: percentile(firstTokens(all), 0.5) };
}

/** As `bench/gpu/replicas.mjs` kills one of two executors when its streams are at a third of their way. */
function afterKill(card: Card): { readonly medianMs: number; readonly lastMs: number } {
  const [streams, tokens] = [64, 400];
  const fleet = new Fleet(card, 2, streams);
  const all = Array.from({ length: streams }, () => requestOf(300, tokens));
  for (const request of all) fleet.submit(request);
  const progress = (): number => all.reduce((sum, { tokenAt }) => sum + tokenAt.length, 0) / (streams * tokens);
  for (let untilMs = 0; progress() < 1 / 3; untilMs += 1) fleet.run(untilMs);
  const killedAt = fleet.nowMs;
  const lost = fleet.kill(0, NOTICED_MS);
  const had = new Map(lost.map((request) => [request, request.tokenAt.length]));
  fleet.run();
  const pauses = lost.map((request) => (request.tokenAt[had.get(request) as number] as number) - killedAt);
  return { medianMs: percentile(pauses, 0.5), lastMs: Math.max(...pauses) };
}

/** Cards in gateways of so many, among which requests are dealt by lot, as balancers of connections do. @returns times to first tokens */
function openLoop(
  card: Card,
  cards: number,
  perGateway: number,
  perSecond: number,
  seconds: number,
): readonly number[] {
  const fleets = Array.from({ length: cards / perGateway }, (_, i) => new Fleet(card, perGateway, 256, i + 1));
  const all: Request[] = [];
  for (
    let atMs = 0;
    atMs < 1000 * seconds;
    atMs += (-1000 * Math.log(1 - random.below(2 ** 20) / 2 ** 20)) / perSecond
  ) {
    const request = mixed();
    all.push(request);
    const fleet = fleets[random.below(fleets.length)] as Fleet;
    fleet.at(atMs, () => fleet.submit(request));
  }
  for (const fleet of fleets) fleet.run();
  return firstTokens(all);
}

console.log('| | simulated | measured | error |\n| --- | --- | --- | --- |');
for (const [clients, rate, firstMs] of [
  [64, 5713, 94],
  [128, 6601, 142],
] as const) {
  const run = closedLoop(CARDS.H200, 1, clients, 6, mixed);
  compared(`8B Q4_K_M, an H200, ${clients} clients`, 'tok/s', run.rate, rate);
  compared('their first tokens, median', 'ms', run.firstMs, firstMs, false);
}
compared('two H100s, 128 streams', 'tok/s', closedLoop(CARDS.H100, 2, 128, 1, () => requestOf(300, 400)).rate, 16_920);
const killed = afterKill(CARDS.H100);
compared('one of the two executors killed: median of what resumes', 'ms', killed.medianMs, 319, false);
compared('the last that resumes', 'ms', killed.lastMs, 632);

const CARDS_IN_ALL = 16;
const mostPerSecond = (CARDS_IN_ALL * closedLoop(CARDS.H200, 1, 128, 6, mixed).rate) / 128;
console.log(
  `\n| ${CARDS_IN_ALL} H200s, requests of what 128 clients a card would bring | first token, median | p99 |\n| --- | --- | --- |`,
);
for (const share of [0.5, 0.8]) {
  for (const perGateway of [1, 2, 4, 8, 16]) {
    const first = openLoop(CARDS.H200, CARDS_IN_ALL, perGateway, share * mostPerSecond, 20);
    const told = [0.5, 0.99].map((part) => `${percentile(first, part).toFixed(0)} ms`);
    console.log(`| ${100 * share} %, ${perGateway} a gateway | ${told.join(' | ')} |`);
  }
}
process.exit(isOff ? 1 : 0);
