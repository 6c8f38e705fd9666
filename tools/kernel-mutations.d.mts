/** A test, and the kernels that it launches. */
export interface MutationTest {
  readonly test: string;
  readonly with?: readonly string[];
  readonly launches?: readonly string[];
}

/** A mistake that tools/mutate-kernels.mjs plants; see kernel-mutations.mjs. */
export interface Mutation extends MutationTest {
  readonly name: string;
  readonly file: string;
  readonly from: string;
  readonly to: string;
  readonly defaultTest?: MutationTest;
}

export const MUTATIONS: readonly Mutation[];
