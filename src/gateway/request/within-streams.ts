/**
 * Runs the prompts of one request, as many at once as its client's limit of concurrent generations leaves, and always one: a request
 * is not rejected for what it runs itself.
 *
 * @param most at once
 * @param hasFree whether another may begin now
 * @param run begins one before it returns
 * @returns the results in the order of the items
 * @throws the first failure, after which none begins
 */
export function runWithin<Item, Result>(
  items: readonly Item[],
  { most, hasFree }: { readonly most: number; readonly hasFree: () => boolean },
  run: (item: Item, index: number) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = [];
  let next = 0;
  let running = 0;
  let isOver = false;
  return new Promise((resolve, reject) => {
    const begin = (): void => {
      while (!isOver && next < items.length && running < most && (running === 0 || hasFree())) {
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
      if (running === 0 && !isOver) resolve(results);
    };
    begin();
  });
}
