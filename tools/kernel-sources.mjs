// Which kernels a target gets, what they are made of, and whether what was built is what their contracts state.
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { loadableSymbols } from './code-object.mjs';
import { contractHeader } from './contract-header.mjs';
import { fail } from './kernel-objects.mjs';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));

export const sha256 = (...parts) => parts.reduce((hash, part) => hash.update(part), createHash('sha256')).digest('hex');

/**
 * Fails unless each file that `only` names lies in the kernels' folder, or is a twin and twins are wanted.
 *
 * @param {{ kernels: string, only?: string, twins: boolean }} options
 */
export function checkNames({ kernels, only, twins }) {
  for (const name of only?.split(',') ?? []) {
    if (existsSync(path.join(kernels, name))) continue;
    if (!existsSync(path.join(kernels, 'twins', name))) fail(`--only names ${name}, which ${kernels} does not hold`);
    if (!twins) fail(`${name} is a reference kernel, which only --twins builds`);
  }
}

/** A compiled module of the executor. */
async function fromDist(...parts) {
  const file = path.join(root, 'dist', 'executor', ...parts);
  if (!existsSync(file)) fail('the contracts are not compiled; run "npm run build:ts" first');
  return import(pathToFileURL(file).href);
}

/** The kernels of a folder, chosen by the executor's contracts. */
export class KernelSources {
  /**
   * Writes the header that contracts and kernels share, too.
   *
   * @param options kernels: their folder; only: names of files, separated by commas; twins: whether all are wanted; output
   */
  static async open(options) {
    const kernels = await fromDist('kernels', 'index.js');
    const { launchedOn, isOn } = await fromDist('device', 'contract.js');
    const { SlotWord } = await fromDist('model', 'slot-layout.js');
    const file = path.join(options.kernels, 'forge', 'contract.h');
    const text = contractHeader(kernels, SlotWord);
    if (!existsSync(file) || readFileSync(file, 'utf8') !== text) {
      // Whole, since several builds may run.
      writeFileSync(`${file}.${process.pid}`, text);
      renameSync(`${file}.${process.pid}`, file);
    }
    return new KernelSources(options, kernels.allContracts, { launchedOn, isOn });
  }

  constructor(options, allContracts, { launchedOn, isOn }) {
    this.options = options;
    this.allContracts = allContracts;
    this.launchedOn = launchedOn;
    this.isOn = isOn;
  }

  /**
   * Sources that are built for device classes; option `twins` adds the twins and what another class launches, but for Hopper's
   * own kernels.
   *
   * @param {readonly string[]} deviceClasses
   * @param {{ support?: readonly string[] }} [added] `support`: files of the kernels' folder that hold no kernel, and that the target's libraries need
   * @returns the contracts, the files that hold them and those of `support`, a hash of all, and where what is built goes
   */
  of(deviceClasses, { support = [] } = {}) {
    const { kernels, output, twins: all } = this.options;
    const only = this.options.only?.split(',');
    const isOwn = (contract) =>
      [...deviceClasses, 'host', 'portable'].some((deviceClass) => this.isOn(contract, deviceClass));
    const launched = deviceClasses.flatMap((deviceClass) => this.launchedOn(this.allContracts, deviceClass));
    const isCpu = deviceClasses.every((deviceClass) => deviceClass === 'host');
    const contracts = (all ? this.allContracts.filter(isOwn) : [...new Set(launched)]).filter(
      ({ source, isCpuOnly, needsBlock }) =>
        (only === undefined || only.includes(path.basename(source))) && (isCpu ? !needsBlock : !isCpuOnly),
    );
    const held = contracts.map(({ source }) => source);
    // A file that no contract names is one of the tests'.
    const named = only?.filter((name) => !held.some((source) => path.basename(source) === name)) ?? [];
    const names = [...new Set([...held, ...named, ...support])].sort();
    for (const name of names) if (!existsSync(path.join(kernels, name))) fail(`${name} is missing`);
    const sources = names.map((name) => path.join(kernels, name));
    // A manifest depends on the contracts' arguments too: it was held against them.
    const stated = contracts.map(({ name, source, arguments: taken }) => [name, source, taken.map(({ kind }) => kind)]);
    const hashes = sources.flatMap((file) => [path.basename(file), this.hash(file)]);
    return {
      contracts,
      sources,
      hash: sha256(JSON.stringify(stated), ...hashes),
      output: output ?? path.join(root, 'build', all ? 'all-kernels' : 'kernels'),
    };
  }

  /** Hash of a source and of every header that it includes, however deep; all of them lie under the kernels' folder. */
  hash(file, seen = new Set()) {
    if (seen.has(file)) return '';
    seen.add(file);
    const text = readFileSync(file, 'utf8');
    const included = [...text.matchAll(/^\s*#\s*include\s+"([^"]+)"/gm)].map(([, name]) =>
      [path.dirname(file), this.options.kernels]
        .map((folder) => path.resolve(folder, name))
        .find((found) => existsSync(found)),
    );
    return sha256(text, ...included.map((found) => (found === undefined ? '' : this.hash(found, seen))));
  }
}

/** Fails unless each contract's kernel is a symbol of one of the built files. */
export function checkSymbols(target, contracts, folder, files, suffix) {
  const symbols = files.map((file) => loadableSymbols(readFileSync(path.join(folder, file))));
  for (const { name, source } of contracts) {
    if (!symbols.some((names) => names.has(name + suffix))) fail(`${source} for ${target} holds no kernel ${name}`);
  }
}

/** Fails unless the kernel's own metadata has the arguments that its contract states, each aligned to its size. */
export function checkArguments(target, contracts, kernel) {
  const contract = contracts.find(({ name }) => name === kernel.name);
  if (contract === undefined) return;
  let end = 0;
  const expected = contract.arguments.map(({ kind }) => {
    const bytes = kind === 'buffer' ? 8 : 4;
    const offset = Math.ceil(end / bytes) * bytes;
    end = offset + bytes;
    return { offset, bytes, kind };
  });
  const text = (list) => list.map(({ offset, bytes, kind }) => `${kind} of ${bytes} at ${offset}`).join(', ');
  if (text(kernel.arguments) !== text(expected)) {
    fail(`${kernel.name} for ${target} takes ${text(kernel.arguments)}; its contract says ${text(expected)}`);
  }
}
