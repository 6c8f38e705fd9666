export { matmulQuantized as matmulPacked } from './matmul_quantized.js';
