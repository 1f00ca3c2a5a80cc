// How long a read may take.
#pragma once

namespace engine {

/// Whether to wait for a disk. Without, what would have to is nothing: some bytes may have arrived, though.
enum class Patience { any, none };

}  // namespace engine
