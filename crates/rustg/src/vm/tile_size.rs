//! How much of a walk is done at once: the size of a tile, and which views are worth fetching ahead.
use super::fuse;
use super::reduce;
use super::space::{Along, BoundView, Space};

/// Bytes of a launch from which on fetching ahead pays.
const STREAM_BYTES: i64 = 1 << 20;

/// Bytes of registers that stay in the first level of cache.
const L1_BYTES: i64 = 24 << 10;
/// Bytes of registers that a whole row may take before the walk is cut into chunks.
const L2_BYTES: i64 = 640 << 10;

/// Views whose tiles follow each other in memory, worth fetching ahead: more than the caches near a core hold.
pub(super) fn find_streams(space: &Space, tile: &TileSize, views: &[BoundView], sizes: &[isize]) -> fuse::Streams {
    let points: i64 = space.outer.iter().product::<i64>() * space.rows * space.cols;
    let size = |v: &BoundView| sizes[v.buffer];
    let follows = |v: &BoundView| {
        let full = tile.cols == space.cols;
        v.col == size(v) && (space.rows == 1 || (v.row == space.cols as isize * size(v) && (full || tile.rows == 1)))
    };
    let whole = space.walk == Along::Nothing || (space.walk == Along::Cols && tile.cols >= space.cols);
    let mut found: Vec<u32> = (0..views.len() as u32).filter(|&v| follows(&views[v as usize])).collect();
    // An update in place is one stream.
    let place = |v: &u32| (views[*v as usize].buffer, views[*v as usize].offset);
    found.sort_by_key(place);
    found.dedup_by_key(|v| place(v));
    let bytes: i64 = found.iter().map(|&v| points * size(&views[v as usize]) as i64).sum();
    let tile_bytes = tile.rows * tile.cols * 4 * found.len() as i64;
    let worth = whole && bytes > STREAM_BYTES && tile_bytes < STREAM_BYTES / 8;
    fuse::Streams { views: if worth { found } else { vec![] }, bytes }
}

/// How large a tile is.
pub(super) struct TileSize {
    pub rows: i64,
    pub cols: i64,
}
impl TileSize {
    /// `bytes`: of registers for each element. `crosses`: some view is contiguous along the rows. `None`: the walk
    /// is too long to be held whole.
    pub fn choose(space: &Space, bytes: i64, crosses: bool, whole: bool) -> Option<TileSize> {
        let elements = (L1_BYTES / bytes.max(4)).clamp(512, 4096);
        let parts = |n: i64, most: i64| (n + most - 1) / most;
        let up = |n: i64, to: i64| parts(n, to) * to;
        let even = |n: i64, most: i64| if n <= most { n } else { up(parts(n, parts(n, most)), 64) };
        Some(match space.walk {
            Along::Nothing if crosses => TileSize { rows: space.rows.min(64), cols: space.cols.min(64) },
            Along::Nothing => {
                let cols = even(space.cols, elements);
                TileSize { rows: (elements / cols.max(1)).clamp(1, space.rows.max(1)), cols }
            }
            Along::Cols if whole => {
                if space.cols * bytes > L2_BYTES {
                    return None;
                }
                let rows = (elements / space.cols.max(1)).max(if space.cols <= 2048 { 4 } else { 1 });
                TileSize { rows: rows.clamp(1, space.rows.max(1)), cols: space.cols }
            }
            Along::Cols => TileSize { rows: 1, cols: reduce::BLOCK as i64 },
            Along::Rows => {
                let cols = space.cols.min(up(space.cols / 8, 64).clamp(64, 256));
                let chunk = (elements / cols.max(1)).clamp(64, 4096);
                let chunk = 1 << (63 - chunk.leading_zeros());
                if whole && bytes > 0 && space.rows > chunk {
                    return None;
                }
                TileSize { rows: if whole { space.rows } else { chunk }, cols }
            }
        })
    }
}
