// Processes that a gateway has started.
import { readdirSync, readFileSync } from 'node:fs';

/**
 * Process ids of the executors that a process has started, in ascending order. Its keeper of device memory is not among them.
 *
 * @param {number} gateway its process id
 * @returns {number[]}
 */
export function executorsOf(gateway) {
  const isExecutor = (/** @type {string} */ pid) => {
    try {
      const parent = /\) \S (\d+)/.exec(readFileSync(`/proc/${pid}/stat`, 'utf8'))?.[1];
      return (
        Number(parent) === gateway && readFileSync(`/proc/${pid}/cmdline`, 'latin1').split('\0').includes('executor')
      );
    } catch {
      // It has ended.
      return false;
    }
  };
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && isExecutor(name))
    .map(Number)
    .sort((a, b) => a - b);
}
