export { matmulNormed as matmulNormedParts } from './matmul_normed.js';
