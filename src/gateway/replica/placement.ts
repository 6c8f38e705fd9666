/** Cost of a running sequence for a newcomer, in prompt tokens: it shares each step's rows and memory traffic with it. */
const SEQUENCE_COST = 16;
/**
 * Estimated wait of a request at a replica before its first token, in prompt tokens.
 *
 * @param findable of its prompt, among blocks there
 * @param load sequences there, with which it would share steps
 */
export function placementCost(waitingTokens: number, findable: number, load: number): number {
  return waitingTokens - findable + SEQUENCE_COST * load;
}

/** The one of several replicas, at least one, that costs least; of equals the first. */
export function cheapest<T>(replicas: readonly T[], costOf: (replica: T) => number): T {
  const costs = new Map(replicas.map((replica) => [replica, costOf(replica)]));
  return replicas.reduce((best, replica) => ((costs.get(replica) ?? 0) < (costs.get(best) ?? 0) ? replica : best));
}
