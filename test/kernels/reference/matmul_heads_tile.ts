export { matmulTile as matmulHeadsTile } from './matmul_tile.js';
