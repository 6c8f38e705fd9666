// The AMD targets: which cards run them, which compiler knows them, what an emulator can execute of them. A card that is not
// here may still run a generic target's code objects (src/executor/load/open-device.ts).

/**
 * @typedef {object} AmdTarget
 * @property {string} target LLVM's name
 * @property {string} cards as their makers name them
 * @property {number} clang the first that compiles it, of those that are verified here: 19 or 22
 * @property {'WMMA' | 'MFMA' | 'dot instructions'} products what its tiles are multiplied by
 */

/** @type {readonly AmdTarget[]} */
export const AMD_TARGETS = [
  {
    target: 'gfx906',
    cards: 'Radeon VII, Radeon Pro VII, Instinct MI50, MI60',
    clang: 19,
    products: 'dot instructions',
  },
  { target: 'gfx90a', cards: 'Instinct MI210, MI250, MI250X', clang: 19, products: 'MFMA' },
  { target: 'gfx942', cards: 'Instinct MI300A, MI300X, MI325X', clang: 19, products: 'MFMA' },
  { target: 'gfx950', cards: 'Instinct MI350X, MI355X', clang: 22, products: 'MFMA' },
  {
    target: 'gfx1030',
    cards: 'Radeon RX 6800, 6800 XT, 6900 XT, 6950 XT, Pro W6800, V620',
    clang: 19,
    products: 'dot instructions',
  },
  { target: 'gfx1100', cards: 'Radeon RX 7900 XTX, 7900 XT, 7900 GRE, Pro W7800, W7900', clang: 19, products: 'WMMA' },
  { target: 'gfx1101', cards: 'Radeon RX 7800 XT, 7700 XT, Pro W7700', clang: 19, products: 'WMMA' },
  { target: 'gfx1102', cards: 'Radeon RX 7600, 7600 XT', clang: 19, products: 'WMMA' },
  { target: 'gfx1103', cards: 'Radeon 740M, 760M, 780M', clang: 19, products: 'WMMA' },
  { target: 'gfx1150', cards: 'Radeon 880M, 890M', clang: 19, products: 'WMMA' },
  { target: 'gfx1151', cards: 'Radeon 8050S, 8060S (Ryzen AI Max)', clang: 19, products: 'WMMA' },
  { target: 'gfx1152', cards: 'Radeon 840M, 860M', clang: 19, products: 'WMMA' },
  { target: 'gfx1200', cards: 'Radeon RX 9060, 9060 XT', clang: 19, products: 'WMMA' },
  { target: 'gfx1201', cards: 'Radeon RX 9070, 9070 XT, AI PRO R9700', clang: 19, products: 'WMMA' },
  { target: 'gfx11-generic', cards: 'later cards of gfx110x and gfx115x', clang: 19, products: 'WMMA' },
  { target: 'gfx12-generic', cards: 'later cards of gfx120x', clang: 19, products: 'WMMA' },
];
