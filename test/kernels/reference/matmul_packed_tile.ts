export { matmulQuantized as matmulPackedTile } from './matmul_quantized.js';
