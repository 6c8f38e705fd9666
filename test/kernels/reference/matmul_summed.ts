export { matmulPacked as matmulSummed } from './matmul_packed.js';
