/* The main function of programs whose tests are registered (test.h). Other programs have their own. */

#include "support/test.h"

int main(int argc, char **argv)
{
    return test_run(argc, argv);
}
