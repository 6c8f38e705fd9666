import type { Finding } from './finding.js';
import type { Machine } from './machine.js';

const LIBRARY = /^libamdhip64\.so(\.\d+)*$/;
const USUAL_FOLDERS = ['/usr/lib/x86_64-linux-gnu', '/usr/lib64', '/usr/lib', '/usr/local/lib'];

/**
 * Why AMD's runtime library shows no GPU: it sees none, it lies where the loader does not look, or it is not installed.
 *
 * @param why the loader's own words, or the library's
 * @param cards how many the kernel's driver lists
 */
export function runtimeMissing(machine: Machine, why: string, cards: number): Finding {
  const check = 'HIP runtime';
  if (why.startsWith('hip')) {
    const detail = `it is installed and sees no GPU: ${why}`;
    if (cards === 0) return { check, state: 'missing', detail };
    return {
      check,
      state: 'failed',
      detail: `${detail}, where the driver lists ${cards}; first fix the failures above`,
      fix: 'AMD_LOG_LEVEL=3 rocmforge doctor 2>&1 | grep -iE "hsa|fail|error"',
    };
  }
  // Each ROCm beside the last has a folder of its own.
  const rocm = machine.list('/opt').filter((name) => /^rocm/.test(name));
  const folders = [...rocm.map((name) => `/opt/${name}/lib`), ...USUAL_FOLDERS];
  const found = folders.flatMap((folder) => {
    const library = machine.list(folder).find((name) => LIBRARY.test(name));
    return library === undefined ? [] : [`${folder}/${library}`];
  })[0];
  if (found === undefined) {
    return {
      check,
      state: 'missing',
      detail: 'libamdhip64 is nowhere; nothing else of ROCm is needed',
      fix: installing(machine),
    };
  }
  const folder = found.slice(0, found.lastIndexOf('/'));
  const outside = folder.startsWith('/opt/');
  if (outside && machine.env.ROCM_PATH === undefined) {
    const fix = `export ROCM_PATH=${folder.replace(/\/lib$/, '')}`;
    return { check, state: 'failed', detail: `${found} is not where the loader looks`, fix };
  }
  // It is there, and the loader's words say what it lacks itself.
  return {
    check,
    state: 'failed',
    detail: `${found} cannot be loaded: ${why}`,
    fix: `ldd ${found} | grep 'not found'`,
  };
}

/** Command with which this distribution installs the library alone. */
function installing(machine: Machine): string {
  const release = machine.read('/etc/os-release') ?? '';
  const of = new Set([...release.matchAll(/^ID(?:_LIKE)?="?([^"\n]*)"?$/gm)].flatMap(([, ids = '']) => ids.split(' ')));
  if (of.has('debian') || of.has('ubuntu')) return "sudo apt-get install '^libamdhip64-[0-9]+$'";
  if (of.has('fedora')) return 'sudo dnf install rocm-hip';
  if (of.has('arch')) return 'sudo pacman -S hip-runtime-amd';
  return 'install hip-runtime-amd of AMD’s repository (see rocm.docs.amd.com)';
}
