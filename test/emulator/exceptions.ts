/** A class of inputs on which the emulator, not the kernel, is known to be wrong. */
export interface EmulatorException {
  /** Names of kernels, as their contracts say. */
  readonly kernels: RegExp;
  readonly targets: RegExp;
  readonly inputs: string;
  readonly reason: string;
  /** True if a launch's buffers and scalars belong to the class. */
  readonly covers: (values: Readonly<Record<string, unknown>>) => boolean;
}

/** The one list of what is not held against the references on the emulator. */
export const EXCEPTIONS: readonly EmulatorException[] = [];

/** The exception that covers a launch, if any. */
export function exceptionFor(kernel: string, target: string, values: object): EmulatorException | undefined {
  const given = values as Readonly<Record<string, unknown>>;
  return EXCEPTIONS.find(
    ({ kernels, targets, covers }) => kernels.test(kernel) && targets.test(target) && covers(given),
  );
}
