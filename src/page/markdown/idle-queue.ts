/** Time that one turn of the queue may take, ms: far below a frame, so that text that streams is not held up. */
const TURN_MS = 8;
/** Turns come at the latest after this time, ms, also while the page is busy. */
const TIMEOUT_MS = 500;

type Job = () => void;

const jobs = new Set<Job>();
let isScheduled = false;

function schedule(): void {
  if (isScheduled || jobs.size === 0) return;
  isScheduled = true;
  // Safari has no idle callbacks.
  if ('requestIdleCallback' in window) requestIdleCallback(turn, { timeout: TIMEOUT_MS });
  else setTimeout(turn, 1);
}

function turn(): void {
  isScheduled = false;
  const end = performance.now() + TURN_MS;
  for (const job of jobs) {
    jobs.delete(job);
    job();
    if (performance.now() > end) break;
  }
  schedule();
}

/** Runs a job while the page has nothing else to do. @returns a function that drops the job if it has not run */
export function whenIdle(job: Job): () => void {
  jobs.add(job);
  schedule();
  return () => void jobs.delete(job);
}

/** Distance to what is visible at which an element counts as visible. */
const MARGIN = '800px';

/** TypeScript lacks the second, which applies to what the chat's own scroller cuts off. */
const OPTIONS: IntersectionObserverInit & { readonly scrollMargin: string } = {
  rootMargin: MARGIN,
  scrollMargin: MARGIN,
};

const shown = new Map<Element, Job>();
let observer: IntersectionObserver | undefined;

/** Calls back once, when an element is visible or nearly so. @returns a function that stops waiting */
export function whenVisible(element: Element, job: Job): () => void {
  observer ??= new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (!isIntersecting) continue;
      const found = shown.get(target);
      stopWaiting(target);
      found?.();
    }
  }, OPTIONS);
  shown.set(element, job);
  observer.observe(element);
  return () => stopWaiting(element);
}

function stopWaiting(element: Element): void {
  shown.delete(element);
  observer?.unobserve(element);
}
