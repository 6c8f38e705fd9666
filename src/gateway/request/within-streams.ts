/** Interval at which a request of which nothing runs asks whether its next prompt may begin. */
const WAIT_MS = 50;

/**
 * Runs the prompts of one request, as many at once as its client's limits leave. The first begins at once, and may be rejected; the
 * others wait for their turn, so that a request that has begun is not rejected for what runs beside it.
 *
 * @param most at once
 * @param mayBegin true if an item behind the first may begin now
 * @param signal aborted when the client has disconnected: the rest then begins at once, and ends
 * @param run begins one before it returns
 * @returns the results in the order of the items
 * @throws the first failure, after which none begins
 */
export function runWithin<Item, Result>(
  items: readonly Item[],
  {
    most,
    mayBegin,
    signal,
  }: { readonly most: number; readonly mayBegin: (item: Item) => boolean; readonly signal: AbortSignal },
  run: (item: Item, index: number) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = [];
  let next = 0;
  let running = 0;
  let isOver = false;
  return new Promise((resolve, reject) => {
    const isNextDue = () =>
      next < items.length && running < most && (next === 0 || signal.aborted || mayBegin(items[next] as Item));
    const begin = (): void => {
      while (!isOver && isNextDue()) {
        const index = next++;
        running += 1;
        run(items[index] as Item, index).then(
          (result) => {
            results[index] = result;
            running -= 1;
            begin();
          },
          (error: unknown) => {
            isOver = true;
            reject(error);
          },
        );
      }
      if (running > 0 || isOver) return;
      if (next < items.length) setTimeout(begin, WAIT_MS);
      else resolve(results);
    };
    begin();
  });
}
