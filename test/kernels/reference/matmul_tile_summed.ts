export { matmulTile as matmulTileSummed } from './matmul_tile.js';
