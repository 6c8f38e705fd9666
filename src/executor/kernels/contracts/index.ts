import type { KernelContract } from '../contract.js';
import { forwardContracts } from './forward.js';

export * from './forward.js';

/** Every contract: what must exist in each code object, what the documentation lists, what the tests cover. */
export const allContracts: readonly KernelContract[] = [...forwardContracts];
