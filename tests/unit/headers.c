#include "hipfile.h"
#include "hipfile_ext.h"
#include "hipfile_fuse.h"
