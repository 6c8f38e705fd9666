import { setMaxListeners } from 'node:events';

/** The signal of a call, to which each of its completions, inputs and texts may listen: Node warns of more than ten listeners otherwise. */
export function callSignal(signal: AbortSignal): AbortSignal {
  setMaxListeners(0, signal);
  return signal;
}

/** An AbortController with such a signal. */
export function callController(): AbortController {
  const controller = new AbortController();
  callSignal(controller.signal);
  return controller;
}
