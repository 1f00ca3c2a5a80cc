#include "hipfile.h"
#include "hipfile_fuse.h"
