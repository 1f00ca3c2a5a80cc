// One thread's share of a segment: chunks from a common cursor, several in flight, file I/O of one overlapped with the
// copy of another.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "engine/chunk_cursor.h"
#include "engine/chunk_result.h"
#include "engine/transfer.h"

namespace engine {

/// What the threads that move one segment share.
struct SegmentWork {
  SegmentWork(const TransferContext& c, const Segment& s);

  const TransferContext& context;
  const Segment& segment;
  ChunkCursor cursor;
  std::atomic<bool> direct;  ///< until the file refuses it
  std::function<void(uint64_t)> help =
      {};  ///< asks other threads to join for so many chunks; null: nobody is to

  std::mutex mutex;
  std::vector<ChunkResult> chunks;  ///< in any order
  int direct_refused = 0;           ///< errno
  int cancelled = 0, setup_error = 0;
  hip::Error hip_error = hip::kSuccess;
  std::array<uint64_t, kRoutes> by_route{};
};

class Pipeline {
 public:
  enum class Role { owner, helper };
  /// `leave`: asked before each chunk by helpers.
  Pipeline(SegmentWork& work, Lane& lane, Role role, std::function<bool()> leave = {});
  ~Pipeline();
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  /// Moves chunks until none is left or, for helpers, until there is no slot or `leave` says so; true in the last case.
  /// The device must be current where the segment is staged.
  bool run();

 private:
  struct Chunk;
  /// Part of a chunk that goes one way.
  struct Piece {
    Chunk* chunk = nullptr;
    uint64_t begin = 0, length = 0;  // from the start of the chunk
    bool direct = false;             // around the page cache
    uint64_t moved = 0;
    int error = 0;
    bool ended = false;
  };
  struct Chunk {
    uint64_t begin = 0, length = 0;  // from the start of the request
    std::vector<Piece> pieces;
    unsigned pending = 0;
    uint64_t moved = 0;
    int error = 0;
    Route last = Route::none;
    bool ended = false;
    std::optional<gpu::PinnedSlot> slot;
    std::optional<gpu::Event> event;
  };

  bool issue_next();
  bool take_slot(std::optional<gpu::PinnedSlot>& slot);
  void drain_copies();
  char* memory(const Chunk& chunk) const;
  uint64_t offset(const Piece& piece) const;

  void start_io(Chunk& chunk);
  void cut(Chunk& chunk);
  void add_piece(Chunk& chunk, uint64_t length, bool direct);
  void submit(Piece& piece);
  void on_io(const IoCompletion& done);
  void run_buffered(Piece& piece);
  Route route_of(const Piece& piece) const;
  void count(const Piece& piece, uint64_t bytes);
  void piece_finished(Piece& piece);
  void io_finished(Chunk& chunk);

  void start_copy(Chunk& chunk, uint64_t bytes);
  void settle(Chunk& chunk);
  void copy_failed(Chunk& chunk, hip::Error error);
  void on_copied(hip::Error error);
  void finish(Chunk& chunk);

  SegmentWork& work_;
  const TransferContext& c_;
  Lane& lane_;
  const Role role_;
  const std::function<bool()> leave_;
  const bool staged_, reading_;
  const gpu::Stream* stream_ = nullptr;
  std::deque<Chunk> chunks_;  // references stay valid
  std::deque<Chunk*> copying_;
  std::vector<ChunkResult> results_;
  std::array<uint64_t, kRoutes> by_route_{};
  unsigned in_flight_ = 0, io_outstanding_ = 0;
  bool leaving_ = false, left_for_others_ = false;
};

}  // namespace engine
